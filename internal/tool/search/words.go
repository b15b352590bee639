package search

import (
	"slices"
	"strings"
	"sync"
)

var stopWords = sync.OnceValue(func() map[string]bool {
	return wordSet("a an the of to in and for on with by is are it its this that from as be or into at if will can was were " +
		"has have been their there they them these those your you our we my me i he she his her which who what when where how " +
		"than then so such not no do does did up out about between also any all each both per via using use used uses would " +
		"should could may might must")
})

// vagueWords say little about a tool although tools are named with them; in a query they count for less.
var vagueWords = sync.OnceValue(func() map[string]bool {
	return wordSet("get fetch retrieve obtain show display view find make create generate build new go give provide perform " +
		"take help want need check set put allow enable let ask tell please return various different specific information " +
		"info data")
})

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[singular(w)] = true
	}
	return set
}

// thesaurus has a group of words on each line that people and tools use for the same thing. It holds the
// verbs of interfaces, kinds of files and everyday subjects, and nothing that only one product is called.
const thesaurus = `
get fetch retrieve obtain read load
show display view list
list enumerate
find search query lookup locate discover look
create make generate build new produce
draw plot chart graph diagram visualize
write save store export put
delete remove erase drop clear purge
update edit modify change set patch
insert add append attach
send post submit publish
open navigate visit browse goto go launch
run execute start launch invoke
stop cancel kill terminate end close abort
copy duplicate clone
move rename
convert transform translate export
calculate compute evaluate math arithmetic
check verify validate test inspect
analyze analyse examine analysis
summarize summary summarise abstract digest
extract parse decode
compare diff difference
recommend suggest recommendation suggestion
schedule plan arrange
describe explain
buy purchase order shop shopping
translate translation language
merge combine join concatenate
split divide separate
upload import
download export
install setup
subscribe follow
enable activate
disable deactivate
compress zip archive
encrypt decrypt cipher
reply answer respond response
click press tap
type fill input enter
wait sleep delay pause
sort order rank
filter select
count number total
assign allocate
approve accept confirm
file path filename document
directory folder dir path
docx doc word document
ppt pptx powerpoint presentation slide slideshow deck
excel xlsx xls spreadsheet workbook worksheet sheet
csv table
markdown md
pdf document
picture image photo png jpg jpeg figure
video movie clip film
music song audio track sound
url link web website webpage page site http https html
browser web page
email mail message inbox
message chat sms notification
news headline article story
trend trending popular hot top rank ranking
latest recent new current newest
today now current date time
clock time timezone
datetime date day calendar
calendar almanac event
meeting appointment event
map location geographic place coordinate geo position
address location place
route direction navigation path
nearby near around
restaurant food dining
recipe meal dish cook food menu
hotel accommodation lodging rental
flight airline plane airport
train railway rail railroad ticket
car vehicle automobile
travel trip journey tour
weather forecast temperature
stock share equity ticker
price cost quote value
finance financial economic market business
company corporation business firm
crypto cryptocurrency coin token
currency exchange money rate
invoice bill receipt payment
customer client contact
paper publication article research study literature
book novel reading
game gaming play player
technology tech
ai artificial intelligence
product item goods merchandise
comment reply discussion
user profile account member
team group organization
database db sql
repository repo
commit log history
branch merge
code source program script
package library dependency module
vulnerability security cve
container image
server host instance machine
issue bug ticket
api endpoint
password secret credential
note memo memory
task todo job
text content string
number digit integer
random dice
color colour
size dimension
screenshot capture
flowchart diagram
domain dns
disease illness medical clinical health
drug medicine medication
gene genetic variant mutation
museum art painting artwork
information info detail data metadata
statistics stats metrics
character hero champion
sentiment mood
transcript subtitle caption
sport match team
school education university
job career employment`

// synonyms maps a word to those that share a group with it.
var synonyms = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(thesaurus) {
		group := strings.Fields(line)
		for i := range group {
			group[i] = singular(group[i])
		}
		for _, a := range group {
			for _, b := range group {
				if a != b && !slices.Contains(out[a], b) {
					out[a] = append(out[a], b)
				}
			}
		}
	}
	return out
})
