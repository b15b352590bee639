package retail

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// database is the shop's data. Members are in the order in which the benchmark declares them: answers show it.
type database struct {
	Products ordered[*product] `json:"products"`
	Users    ordered[*user]    `json:"users"`
	Orders   ordered[*order]   `json:"orders"`
}

type product struct {
	Name      string            `json:"name"`
	ProductID string            `json:"product_id"`
	Variants  ordered[*variant] `json:"variants"`
}

type variant struct {
	ItemID    string          `json:"item_id"`
	Options   ordered[string] `json:"options"`
	Available bool            `json:"available"`
	Price     amount          `json:"price"`
}

type user struct {
	UserID   string                  `json:"user_id"`
	Name     name                    `json:"name"`
	Address  address                 `json:"address"`
	Email    string                  `json:"email"`
	Payments ordered[*paymentMethod] `json:"payment_methods"`
	Orders   []string                `json:"orders"`
}

type name struct {
	First string `json:"first_name"`
	Last  string `json:"last_name"`
}

type address struct {
	Address1 string `json:"address1"`
	Address2 string `json:"address2"`
	City     string `json:"city"`
	Country  string `json:"country"`
	State    string `json:"state"`
	Zip      string `json:"zip"`
}

// paymentMethod is a credit card, a gift card, which alone has a balance, or a PayPal account.
type paymentMethod struct {
	Source   string  `json:"source"`
	ID       string  `json:"id"`
	Brand    *string `json:"brand,omitempty"`
	LastFour *string `json:"last_four,omitempty"`
	Balance  *amount `json:"balance,omitempty"`
}

const giftCard = "gift_card"

type order struct {
	OrderID         string        `json:"order_id"`
	UserID          string        `json:"user_id"`
	Address         address       `json:"address"`
	Items           []orderItem   `json:"items"`
	Status          string        `json:"status"`
	Fulfillments    []fulfillment `json:"fulfillments"`
	Payments        []payment     `json:"payment_history"`
	CancelReason    *string       `json:"cancel_reason"`
	ExchangeItems   *[]string     `json:"exchange_items"`
	ExchangeNew     *[]string     `json:"exchange_new_items"`
	ExchangePayment *string       `json:"exchange_payment_method_id"`
	ExchangePrice   *amount       `json:"exchange_price_difference"`
	ReturnItems     *[]string     `json:"return_items"`
	ReturnPayment   *string       `json:"return_payment_method_id"`
}

type orderItem struct {
	Name      string          `json:"name"`
	ProductID string          `json:"product_id"`
	ItemID    string          `json:"item_id"`
	Price     amount          `json:"price"`
	Options   ordered[string] `json:"options"`
}

type fulfillment struct {
	TrackingID []string `json:"tracking_id"`
	ItemIDs    []string `json:"item_ids"`
}

type payment struct {
	Kind     string `json:"transaction_type"`
	Amount   amount `json:"amount"`
	MethodID string `json:"payment_method_id"`
}

// clone copies all that tools change. Products are not changed.
func (d database) clone() database {
	d.Users = d.Users.clone(func(u *user) *user {
		c := *u
		c.Payments = u.Payments.clone(func(p *paymentMethod) *paymentMethod {
			c := *p
			if p.Balance != nil {
				balance := *p.Balance
				c.Balance = &balance
			}
			return &c
		})
		return &c
	})
	d.Orders = d.Orders.clone(func(o *order) *order {
		c := *o
		c.Items, c.Payments = slices.Clone(o.Items), slices.Clone(o.Payments)
		return &c
	})
	return d
}

// Data is the database before any task.
type Data struct{ db database }

// ReadData reads the benchmark's db.json.
func ReadData(raw []byte) (*Data, error) {
	d := &Data{}
	if err := json.Unmarshal(raw, &d.db); err != nil {
		return nil, fmt.Errorf("the database of the shop cannot be read: %w", err)
	}
	if len(d.db.Orders.keys) == 0 || len(d.db.Users.keys) == 0 {
		return nil, fmt.Errorf("the database of the shop has %d orders and %d users", len(d.db.Orders.keys), len(d.db.Users.keys))
	}
	return d, nil
}

// Open opens a shop of its own on the data.
func (d *Data) Open() *Shop { return &Shop{db: d.db.clone()} }

// Digest is the SHA-256 of the shop's database as JSON with sorted members, in hexadecimal: what the benchmark compares.
func (s *Shop) Digest() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := sortedText(s.db)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), nil
}

// Task is a task of the benchmark, as far as it is used.
type Task struct {
	ID      string
	Wish    string   // what the customer wants, in the words of the benchmark
	Actions []Action // the calls that a right solution makes
}

// Action is a call of a tool.
type Action struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// ReadTasks reads the benchmark's tasks.json. Tasks without actions are left out.
func ReadTasks(raw []byte) ([]Task, error) {
	var file []struct {
		ID       string `json:"id"`
		Scenario struct {
			Instructions struct {
				Reason  string `json:"reason_for_call"`
				Known   string `json:"known_info"`
				Unknown string `json:"unknown_info"`
				Task    string `json:"task_instructions"`
			} `json:"instructions"`
		} `json:"user_scenario"`
		InitialState json.RawMessage `json:"initial_state"`
		Criteria     struct {
			Actions []Action `json:"actions"`
		} `json:"evaluation_criteria"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("the tasks cannot be read: %w", err)
	}
	var tasks []Task
	for _, t := range file {
		if len(t.Criteria.Actions) == 0 {
			continue
		}
		if state := string(t.InitialState); state != "" && state != "null" {
			return nil, fmt.Errorf("task %s begins with a state of its own, which is not understood", t.ID)
		}
		wish := ""
		for _, part := range []string{t.Scenario.Instructions.Reason, t.Scenario.Instructions.Known, t.Scenario.Instructions.Unknown, t.Scenario.Instructions.Task} {
			if part != "" {
				wish += part + "\n"
			}
		}
		tasks = append(tasks, Task{ID: t.ID, Wish: wish, Actions: t.Criteria.Actions})
	}
	return tasks, nil
}
