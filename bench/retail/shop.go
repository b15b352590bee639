package retail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Shop is a shop with a database of its own. It may be used by several goroutines.
type Shop struct {
	mu   sync.Mutex
	db   database
	done []Call
}

// Call is a call that a shop has answered.
type Call struct {
	Action
	Answer string
	Failed bool
}

// Calls are the calls that the shop has answered, in their order.
func (s *Shop) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.done)
}

// refusal is why a tool does nothing, in the words of the benchmark.
type refusal string

func (r refusal) Error() string { return string(r) }

// Do does a call. Its answer is a text, or an object as JSON; the error is what the tool says that refuses.
func (s *Shop) Do(a Action) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, err := s.do(a)
	c := Call{Action: a, Answer: answer, Failed: err != nil}
	if err != nil {
		c.Answer = "Error: " + err.Error()
	}
	s.done = append(s.done, c)
	return answer, err
}

func (s *Shop) do(a Action) (string, error) {
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == a.Name })
	if i < 0 {
		return "", refusal("Tool '" + a.Name + "' not found.")
	}
	given, err := tools[i].read(a.Arguments)
	if err != nil {
		return "", err
	}
	v, err := tools[i].run(&s.db, given)
	if err != nil {
		return "", err
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	return pythonText(v)
}

// given are the arguments of any tool.
type given struct {
	Expression string   `json:"expression"`
	OrderID    string   `json:"order_id"`
	UserID     string   `json:"user_id"`
	ProductID  string   `json:"product_id"`
	ItemID     string   `json:"item_id"`
	Email      string   `json:"email"`
	First      string   `json:"first_name"`
	Last       string   `json:"last_name"`
	Reason     string   `json:"reason"`
	Summary    string   `json:"summary"`
	ItemIDs    []string `json:"item_ids"`
	NewItemIDs []string `json:"new_item_ids"`
	PaymentID  string   `json:"payment_method_id"`
	address
}

// read reads the arguments: all that the tool has, and no other.
func (t tool) read(raw json.RawMessage) (given, error) {
	var g given
	var there map[string]json.RawMessage
	if err := json.Unmarshal(raw, &there); err != nil {
		return g, fmt.Errorf("the arguments are no object: %w", err)
	}
	for _, p := range t.params {
		if _, ok := there[p.name]; !ok {
			return g, fmt.Errorf("the argument %s is missing", p.name)
		}
		delete(there, p.name)
	}
	for name := range there {
		return g, fmt.Errorf("there is no argument %s", name)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	return g, d.Decode(&g)
}

func (d *database) order(id string) (*order, error) {
	if o, ok := d.Orders.at[id]; ok {
		return o, nil
	}
	return nil, refusal("Order not found")
}

func (d *database) user(id string) (*user, error) {
	if u, ok := d.Users.at[id]; ok {
		return u, nil
	}
	return nil, refusal("User not found")
}

func (d *database) product(id string) (*product, error) {
	if p, ok := d.Products.at[id]; ok {
		return p, nil
	}
	return nil, refusal("Product not found")
}

func (d *database) item(id string) (*variant, error) {
	for _, key := range d.Products.keys {
		if v, ok := d.Products.at[key].Variants.at[id]; ok {
			return v, nil
		}
	}
	return nil, refusal("Item not found")
}

// payment is a user's way to pay.
func (d *database) payment(userID, id string) (*paymentMethod, error) {
	u, err := d.user(userID)
	if err != nil {
		return nil, err
	}
	if p, ok := u.Payments.at[id]; ok {
		return p, nil
	}
	return nil, refusal("Payment method not found")
}

// add changes the balance of a gift card. Other ways to pay have none.
func (p *paymentMethod) add(x amount) {
	if p.Source == giftCard {
		balance := cents(*p.Balance + x)
		p.Balance = &balance
	}
}

// covers says whether a gift card has enough. Other ways to pay always do.
func (p *paymentMethod) covers(x amount) bool { return p.Source != giftCard || *p.Balance >= x }

func (d *database) findByEmail(g given) (any, error) {
	for _, id := range d.Users.keys {
		if strings.EqualFold(d.Users.at[id].Email, g.Email) {
			return id, nil
		}
	}
	return nil, refusal("User not found")
}

func (d *database) findByName(g given) (any, error) {
	for _, id := range d.Users.keys {
		u := d.Users.at[id]
		if strings.EqualFold(u.Name.First, g.First) && strings.EqualFold(u.Name.Last, g.Last) && u.Address.Zip == g.Zip {
			return id, nil
		}
	}
	return nil, refusal("User not found")
}

func (d *database) productTypes(given) (any, error) {
	types := map[string]string{}
	for _, p := range d.Products.at {
		types[p.Name] = p.ProductID
	}
	return pythonText(types)
}

func (d *database) cancel(g given) (any, error) {
	o, err := d.order(g.OrderID)
	if err != nil {
		return nil, err
	}
	if o.Status != "pending" {
		return nil, refusal("Non-pending order cannot be cancelled")
	}
	if g.Reason != "no longer needed" && g.Reason != "ordered by mistake" {
		return nil, refusal("Invalid reason")
	}
	paid := slices.Clone(o.Payments)
	for _, p := range paid {
		method, err := d.payment(o.UserID, p.MethodID)
		if err != nil {
			return nil, err
		}
		method.add(p.Amount)
	}
	for _, p := range paid {
		o.Payments = append(o.Payments, payment{"refund", p.Amount, p.MethodID})
	}
	o.Status, o.CancelReason = "cancelled", &g.Reason
	return o, nil
}

// lacks says which of the items the order does not have so often; "" if it has all.
func (o *order) lacks(ids []string) string {
	for _, id := range ids {
		if count(ids, func(x string) bool { return x == id }) > count(o.Items, func(i orderItem) bool { return i.ItemID == id }) {
			return id
		}
	}
	return ""
}

func count[T any](all []T, is func(T) bool) (n int) {
	for _, x := range all {
		if is(x) {
			n++
		}
	}
	return n
}

func (o *order) item(id string) *orderItem {
	if i := slices.IndexFunc(o.Items, func(i orderItem) bool { return i.ItemID == id }); i >= 0 {
		return &o.Items[i]
	}
	return nil
}

// swap finds what replaces each item, and the difference of the prices.
func (d *database) swap(o *order, g given, different bool) (variants []*variant, difference amount, err error) {
	for i, id := range g.ItemIDs {
		next := g.NewItemIDs[i]
		if different && id == next {
			return nil, 0, refusal("The new item id should be different from the old item id")
		}
		item := o.item(id)
		p, err := d.product(item.ProductID)
		if err != nil {
			return nil, 0, err
		}
		v, ok := p.Variants.at[next]
		if !ok {
			return nil, 0, refusal("Variant not found")
		}
		if !v.Available {
			return nil, 0, refusal("New item " + next + " not found or available")
		}
		variants = append(variants, v)
		difference += v.Price - item.Price
	}
	return variants, difference, nil
}

func (d *database) exchange(g given) (any, error) {
	o, err := d.order(g.OrderID)
	if err != nil {
		return nil, err
	}
	if o.Status != "delivered" {
		return nil, refusal("Non-delivered order cannot be exchanged")
	}
	if id := o.lacks(g.ItemIDs); id != "" {
		return nil, refusal("Number of " + id + " not found.")
	}
	if len(g.ItemIDs) != len(g.NewItemIDs) {
		return nil, refusal("The number of items to be exchanged should match.")
	}
	_, difference, err := d.swap(o, g, false)
	if err != nil {
		return nil, err
	}
	difference = cents(difference)
	method, err := d.payment(o.UserID, g.PaymentID)
	if err != nil {
		return nil, err
	}
	if !method.covers(difference) {
		return nil, refusal("Insufficient gift card balance to pay for the price difference")
	}
	items, others := slices.Sorted(slices.Values(g.ItemIDs)), slices.Sorted(slices.Values(g.NewItemIDs))
	o.Status, o.ExchangeItems, o.ExchangeNew = "exchange requested", &items, &others
	o.ExchangePayment, o.ExchangePrice = &g.PaymentID, &difference
	return o, nil
}

func (d *database) modifyItems(g given) (any, error) {
	o, err := d.order(g.OrderID)
	if err != nil {
		return nil, err
	}
	if o.Status != "pending" {
		return nil, refusal("Non-pending order cannot be modified")
	}
	if id := o.lacks(g.ItemIDs); id != "" {
		return nil, refusal(id + " not found")
	}
	if len(g.ItemIDs) != len(g.NewItemIDs) {
		return nil, refusal("The number of items to be exchanged should match")
	}
	variants, difference, err := d.swap(o, g, true)
	if err != nil {
		return nil, err
	}
	method, err := d.payment(o.UserID, g.PaymentID)
	if err != nil {
		return nil, err
	}
	if !method.covers(difference) {
		return nil, refusal("Insufficient gift card balance to pay for the new item")
	}
	kind := "refund"
	if difference > 0 {
		kind = "payment"
	}
	o.Payments = append(o.Payments, payment{kind, max(difference, -difference), g.PaymentID})
	method.add(-difference)
	for i, id := range g.ItemIDs {
		item := o.item(id)
		if item == nil { // an earlier item has become this one's new one
			return nil, refusal("Item " + id + " not found")
		}
		// The benchmark gives each item the price and the options of the last new one. Its hashes have it so.
		last := variants[len(variants)-1]
		item.ItemID, item.Price, item.Options = g.NewItemIDs[i], last.Price, last.Options
	}
	o.Status = "pending (item modified)"
	return o, nil
}

func (d *database) modifyOrderAddress(g given) (any, error) {
	o, err := d.order(g.OrderID)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(o.Status, "pending") {
		return nil, refusal("Non-pending order cannot be modified")
	}
	o.Address = g.address
	return o, nil
}

func (d *database) modifyPayment(g given) (any, error) {
	o, err := d.order(g.OrderID)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(o.Status, "pending") {
		return nil, refusal("Non-pending order cannot be modified")
	}
	method, err := d.payment(o.UserID, g.PaymentID)
	if err != nil {
		return nil, err
	}
	if len(o.Payments) != 1 || o.Payments[0].Kind != "payment" {
		return nil, refusal("There should be exactly one payment for a pending order")
	}
	first := o.Payments[0]
	if first.MethodID == g.PaymentID {
		return nil, refusal("The new payment method should be different from the current one")
	}
	if !method.covers(first.Amount) {
		return nil, refusal("Insufficient gift card balance to pay for the order")
	}
	o.Payments = append(o.Payments, payment{"payment", first.Amount, g.PaymentID}, payment{"refund", first.Amount, first.MethodID})
	method.add(-first.Amount)
	old, err := d.payment(o.UserID, first.MethodID)
	if err != nil {
		return nil, err
	}
	old.add(first.Amount)
	return o, nil
}

func (d *database) modifyUserAddress(g given) (any, error) {
	u, err := d.user(g.UserID)
	if err != nil {
		return nil, err
	}
	u.Address = g.address
	return u, nil
}

func (d *database) returnItems(g given) (any, error) {
	o, err := d.order(g.OrderID)
	if err != nil {
		return nil, err
	}
	if o.Status != "delivered" {
		return nil, refusal("Non-delivered order cannot be returned")
	}
	method, err := d.payment(o.UserID, g.PaymentID)
	if err != nil {
		return nil, err
	}
	if method.Source != giftCard && g.PaymentID != o.Payments[0].MethodID {
		return nil, refusal("Payment method should be the original payment method")
	}
	if o.lacks(g.ItemIDs) != "" {
		return nil, refusal("Some item not found")
	}
	items := slices.Sorted(slices.Values(g.ItemIDs))
	o.Status, o.ReturnItems, o.ReturnPayment = "return requested", &items, &g.PaymentID
	return o, nil
}
