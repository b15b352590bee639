package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentkernel"
)

// toolbox is a tool server inside this process: what is measured is the kernel, not a server. It has the
// tools that a desk of an online shop would have.
type toolbox struct {
	tools []agentkernel.Tool
	// answer answers a call; nil answers null.
	answer func(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, error)
}

const toolServer = "shop"

// shopTools lists name, parameters and result as Python writes them, and the description.
var shopTools = []struct{ name, params, result, about string }{
	{"find_orders", "customer_id: int, status: str | None = None, limit: int = 50", "list[dict]", "Lists the orders of a customer, newest first."},
	{"get_order", "order_id: int", "dict", "Reads one order with its lines, payments and parcels."},
	{"get_customer", "customer_id: int", "dict", "Reads a customer with addresses, tags and consent."},
	{"search_customers", "query: str, limit: int = 20", "list[dict]", "Finds customers by name, mail address or phone number."},
	{"list_refunds", "order_id: int", "list[dict]", "Lists the refunds of an order with their reasons."},
	{"get_invoice", "order_id: int, format: str = 'json'", "dict", "Reads the invoice of an order."},
	{"track_parcel", "parcel_id: str", "dict", "Asks the carrier where a parcel is."},
	{"list_warehouses", "country: str | None = None", "list[dict]", "Lists warehouses with their opening hours."},
	{"get_stock", "sku: str, warehouse: str | None = None", "dict", "Reads how much of an article lies where."},
	{"search_articles", "query: str, category: str | None = None, limit: int = 20", "list[dict]", "Finds articles by words."},
	{"get_article", "sku: str", "dict", "Reads an article with its prices and pictures."},
	{"get_price", "sku: str, currency: str = 'EUR', quantity: int = 1", "float", "Computes the price of an article for a quantity."},
	{"list_tickets", "customer_id: int | None = None, status: str = 'open'", "list[dict]", "Lists support tickets."},
	{"get_ticket", "ticket_id: int", "dict", "Reads a ticket with all its messages."},
	{"list_messages", "ticket_id: int, since: str | None = None", "list[dict]", "Lists the messages of a ticket."},
	{"get_policy", "topic: str", "str", "Reads a policy of the shop: returns, shipping, warranty."},
	{"convert_currency", "amount: float, source: str, target: str", "float", "Converts an amount at the rate of the day."},
	{"check_fraud", "order_id: int", "dict", "Asks the fraud service for the score of an order."},
	{"list_campaigns", "active: bool = True", "list[dict]", "Lists marketing campaigns with their codes."},
	{"sales_report", "start: str, end: str, group_by: str = 'day'", "list[dict]", "Sums the sales between two dates."},
}

// newToolbox gives the shop's tools, all read-only, and those named beside them: "name(params) -> result".
func newToolbox(answer func(context.Context, string, json.RawMessage) (json.RawMessage, error)) *toolbox {
	t := &toolbox{answer: answer}
	for _, s := range shopTools {
		t.tools = append(t.tools, newTool(s.name, s.params, s.result, s.about))
	}
	return t
}

// newTool describes a tool as the MCP client would have from its schema.
func newTool(name, params, result, about string) agentkernel.Tool {
	t := agentkernel.Tool{
		Server: toolServer, Name: name, PythonServer: toolServer, PythonName: name, Description: about,
		Effect: agentkernel.EffectRead, Signature: fmt.Sprintf("%s(%s) -> %s", name, params, result),
	}
	doc := []string{about, "", "Args:"}
	properties := map[string]any{}
	var required []string
	for param := range strings.SplitSeq(params, ", ") {
		declared, value, optional := strings.Cut(param, " = ")
		pname, ptype, _ := strings.Cut(declared, ": ")
		if pname == "" {
			continue
		}
		t.Params = append(t.Params, agentkernel.ToolParam{Name: pname, Python: pname, Type: ptype, Required: !optional, Default: value})
		properties[pname] = map[string]string{"description": ptype}
		if !optional {
			required = append(required, pname)
		}
		doc = append(doc, fmt.Sprintf("    %s (%s)", pname, ptype))
	}
	t.Doc = strings.Join(doc, "\n")
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	if err == nil { // maps of text always marshal
		t.InputSchema = schema
	}
	return t
}

// forKernel is embedded.Config.Tools.
func (t *toolbox) forKernel([]string) (agentkernel.ToolSource, error) { return t, nil }

// Servers lists the one server.
func (t *toolbox) Servers(context.Context) ([]agentkernel.ToolServer, error) {
	return []agentkernel.ToolServer{{Name: toolServer, PythonName: toolServer, Transport: "local", Trusted: true, Running: true}}, nil
}

// Tools lists the shop's tools; CodeNotFound for any other server.
func (t *toolbox) Tools(_ context.Context, server string) ([]agentkernel.Tool, error) {
	if server != toolServer {
		return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "there is no server %q", server)
	}
	return t.tools, nil
}

// Call answers at once.
func (t *toolbox) Turn(string, string, time.Time) agentkernel.ToolTurn { return nil }

func (t *toolbox) Call(ctx context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	if t.answer == nil {
		return agentkernel.ToolResult{Value: json.RawMessage("null"), Incarnation: "1"}, nil
	}
	v, err := t.answer(ctx, c.Tool, c.Arguments)
	return agentkernel.ToolResult{Value: v, Incarnation: "1"}, err
}

// withTools is the Spec of a program that imports the shop's tools.
func withTools(name, source string) agentkernel.Spec {
	s := python(name, source)
	s.Tools = []string{"/shop.json"} // a name only: forKernel reads no file
	return s
}
