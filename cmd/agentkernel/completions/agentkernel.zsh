#compdef agentkernel
# zsh completion of agentkernel; the words come from the program itself.
_agentkernel() {
    local line files=0
    local -a described
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            files=1
        else
            described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        fi
    done < <(command agentkernel completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( $#described )) && _describe 'agentkernel' described
    (( files )) && _files
}
if [[ ${funcstack[1]} == _agentkernel ]]; then
    _agentkernel "$@"
else
    compdef _agentkernel agentkernel
fi
