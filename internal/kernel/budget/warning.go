package budget

import (
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
)

// nearly says whether nine tenths of a limit are spent, or more. What calls under way hold does not count: they may give it back.
func nearly(spent, limit int64) bool { return limit > 0 && spent >= limit-limit/10 }

// due says whether the process of a book is to be warned, of an amount of which it was not with this limit; the ledger's lock is held.
func (b *book) due(i int) bool {
	return b.of == nil && b.seen == nil && b.caps[i] && b.warned[i] < b.limit[i] && nearly(b.spent[i], b.limit[i])
}

// tell lets the process of a book be warned, if it is due; the ledger's lock is held.
func (l *Ledger) tell(pid agentkernel.PID, b *book) {
	for i := range names {
		if l.src.Due != nil && b.due(i) {
			l.src.Due(pid)
			return
		}
	}
}

// Warnings are what is due to be told a process, whose account does not change meanwhile. The caller appends them: their entries say
// that it was told, so that no crash tells it twice. What a crash has kept from being told is due when the book is read again.
func (l *Ledger) Warnings(pid agentkernel.PID) (all []agentkernel.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[pid]
	if b == nil {
		return nil
	}
	for i, name := range names {
		if !b.due(i) {
			continue
		}
		b.warned[i] = b.limit[i]
		payload, err := json.Marshal(history.BudgetWarning{Budget: history.Nearly{
			Amount: name, Held: number(name, b.held[i]), Limit: number(name, b.limit[i]), Spent: number(name, b.spent[i])}})
		if err != nil {
			continue // texts and numbers always encode
		}
		data := history.SignalData{Payload: payload, Warns: agentkernel.Amounts{name: b.limit[i]}}
		all = append(all, agentkernel.Batch{
			Entries: []agentkernel.Entry{{Kind: agentkernel.EntrySignal, Signal: agentkernel.SignalUser, Data: data.Encode()}},
			Posts:   []agentkernel.Post{{To: pid, Kind: agentkernel.PostSignal, Data: payload}},
		})
	}
	return all
}

// number is an amount as a program reads it: dollars and seconds are a float.
func number(name string, n int64) json.RawMessage {
	switch name {
	case agentkernel.AmountUSD:
		return journal.AppendFloat(nil, float64(n)/float64(agentkernel.USD))
	case agentkernel.AmountTime:
		return journal.AppendFloat(nil, time.Duration(n).Seconds())
	}
	data, err := json.Marshal(n)
	if err != nil {
		return json.RawMessage("0") // a number always encodes
	}
	return data
}
