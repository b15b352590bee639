package tool

// Held is how many servers a Hub knows, and which values it takes for secrets.
func Held(h *Hub) (servers int, secrets []string) {
	for _, s := range h.secrets.Load().secrets {
		secrets = append(secrets, s.value)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers), secrets
}
