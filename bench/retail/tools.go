package retail

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tool is a tool of the shop.
type tool struct {
	name, about string
	reads       bool // it changes nothing
	text        bool // it answers with a text, not with an object
	params      []param
	run         func(*database, given) (any, error)
}

// param is a parameter; those with many are lists of texts, all others texts.
type param struct {
	name, about string
	many        bool
}

var (
	orderID   = param{name: "order_id", about: "Number of the order with its '#', such as '#W0000000'."}
	userID    = param{name: "user_id", about: "Id of the user, such as 'sara_doe_496'."}
	itemIDs   = param{name: "item_ids", about: "Ids of the items of the order, such as '1008292230'; one that is there twice may be named twice.", many: true}
	newItems  = param{name: "new_item_ids", about: "Ids of the items that replace them, in the same order, each of the same product.", many: true}
	paymentID = param{name: "payment_method_id", about: "Way to pay or to be paid back, such as 'gift_card_0000000' or 'credit_card_0000000'; the user's details and the order's have it."}
	newPlace  = []param{
		{name: "address1", about: "First line, such as '123 Main St'."},
		{name: "address2", about: "Second line, such as 'Apt 1', or ''."},
		{name: "city", about: "City, such as 'San Francisco'."},
		{name: "state", about: "State, such as 'CA'."},
		{name: "country", about: "Country, such as 'USA'."},
		{name: "zip", about: "Zip code, such as '12345'."},
	}
)

// consent is what the policy wants before each change.
const consent = " Explain the details and get an explicit yes of the user first."

// tools are in the order of the benchmark.
var tools = []tool{
	{name: "calculate", about: "Computes an expression of numbers, + - * / and parentheses; the result is rounded to two digits.", reads: true, text: true,
		params: []param{{name: "expression", about: "The expression, such as '2 + 2'."}}, run: func(_ *database, g given) (any, error) { return calculate(g) }},
	{name: "cancel_pending_order", about: "Cancels a pending order and pays it back: at once to a gift card, within 5 to 7 business days otherwise. Orders that are processed or delivered cannot be cancelled." + consent + " Returns the order.",
		params: []param{orderID, {name: "reason", about: "'no longer needed' or 'ordered by mistake'."}}, run: (*database).cancel},
	{name: "exchange_delivered_order_items", about: "Exchanges items of a delivered order for others of the same products. An order can be returned or exchanged once only." + consent + " Returns the order.",
		params: []param{orderID, itemIDs, newItems, paymentID}, run: (*database).exchange},
	{name: "find_user_id_by_name_zip", about: "Finds a user's id by name and zip code. Use it where the user has no email address or is not found by it.", reads: true, text: true,
		params: []param{{name: "first_name", about: "First name, such as 'John'."}, {name: "last_name", about: "Last name, such as 'Doe'."}, {name: "zip", about: "Zip code, such as '12345'."}}, run: (*database).findByName},
	{name: "find_user_id_by_email", about: "Finds a user's id by email address.", reads: true, text: true,
		params: []param{{name: "email", about: "The address, such as 'something@example.com'."}}, run: (*database).findByEmail},
	{name: "get_order_details", about: "Reads an order: status, items, payments, parcels.", reads: true,
		params: []param{orderID}, run: func(d *database, g given) (any, error) { return d.order(g.OrderID) }},
	{name: "get_product_details", about: "Reads a product with all its items, their options, prices and whether they are available.", reads: true,
		params: []param{{name: "product_id", about: "Id of the product, such as '6086499569'; items have others."}}, run: func(d *database, g given) (any, error) { return d.product(g.ProductID) }},
	{name: "get_item_details", about: "Reads an item: options, price, whether it is available.", reads: true,
		params: []param{{name: "item_id", about: "Id of the item, such as '6086499569'; products have others."}}, run: func(d *database, g given) (any, error) { return d.item(g.ItemID) }},
	{name: "get_user_details", about: "Reads a user: name, address, ways to pay, numbers of orders.", reads: true,
		params: []param{userID}, run: func(d *database, g given) (any, error) { return d.user(g.UserID) }},
	{name: "list_all_product_types", about: "Lists the names and ids of all products as JSON, sorted by name.", reads: true, text: true, run: (*database).productTypes},
	{name: "modify_pending_order_address", about: "Changes where a pending order is sent." + consent + " Returns the order.",
		params: append([]param{orderID}, newPlace...), run: (*database).modifyOrderAddress},
	{name: "modify_pending_order_items", about: "Changes items of a pending order into others of the same products. This can be done once for an order." + consent + " Returns the order.",
		params: []param{orderID, itemIDs, newItems, paymentID}, run: (*database).modifyItems},
	{name: "modify_pending_order_payment", about: "Changes how a pending order is paid." + consent + " Returns the order.",
		params: []param{orderID, paymentID}, run: (*database).modifyPayment},
	{name: "modify_user_address", about: "Changes a user's own address." + consent + " Returns the user.",
		params: append([]param{userID}, newPlace...), run: (*database).modifyUserAddress},
	{name: "return_delivered_order_items", about: "Returns items of a delivered order; an email tells the user how. It is paid back as the order was paid, or to a gift card." + consent + " Returns the order.",
		params: []param{orderID, itemIDs, paymentID}, run: (*database).returnItems},
	{name: "transfer_to_human_agents", about: "Hands the user over to a human, with a summary: only if the user asks for one, or if policy and tools do not allow what is wanted.", text: true,
		params: []param{{name: "summary", about: "What the user wants."}}, run: func(*database, given) (any, error) { return "Transfer successful", nil }},
}

// Reads says whether a tool changes nothing.
func Reads(name string) bool {
	for _, t := range tools {
		if t.name == name {
			return t.reads
		}
	}
	return false
}

// Writers are the names of the tools that change something, or that speak to somebody.
func Writers() (names []string) {
	for _, t := range tools {
		if !t.reads {
			names = append(names, t.name)
		}
	}
	return names
}

// schema is the JSON Schema of the arguments.
func (t tool) schema() json.RawMessage {
	properties, required := ordered[any]{at: map[string]any{}}, []string{}
	for _, p := range t.params {
		about := map[string]any{"type": "string", "description": p.about}
		if p.many {
			about = map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": p.about}
		}
		properties.keys, properties.at[p.name] = append(properties.keys, p.name), about
		required = append(required, p.name)
	}
	raw, err := compact(map[string]any{"type": "object", "properties": properties, "required": required})
	if err != nil {
		panic(err) // texts always marshal
	}
	return raw
}

// Server is an MCP server with the tools of the shop.
func (s *Shop) Server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "retail", Version: "1"}, nil)
	for _, t := range tools {
		declared := &mcp.Tool{Name: t.name, Description: t.about, InputSchema: t.schema(), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.reads}}
		if !t.text {
			declared.OutputSchema = json.RawMessage(`{"type":"object"}`)
		}
		server.AddTool(declared, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return t.result(s.Do(Action{Name: t.name, Arguments: r.Params.Arguments})), nil
		})
	}
	return server
}

// result is what MCP has of an answer, or of a refusal.
func (t tool) result(answer string, err error) *mcp.CallToolResult {
	r := &mcp.CallToolResult{}
	switch {
	case err != nil:
		r.IsError, answer = true, "Error: "+err.Error()
	case !t.text:
		r.StructuredContent = json.RawMessage(answer)
	}
	r.Content = []mcp.Content{&mcp.TextContent{Text: answer}}
	return r
}
