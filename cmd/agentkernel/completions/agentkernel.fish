# fish completion of agentkernel; the words come from the program itself.
function __agentkernel_words
    set -l words (commandline -opc) (commandline -ct)
    for line in (command agentkernel completion words -- $words[2..-1] 2>/dev/null)
        if test "$line" = ':files'
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c agentkernel -f -a '(__agentkernel_words)'
