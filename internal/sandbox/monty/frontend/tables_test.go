package frontend

// Engine tables for the external tests.

// NativeNames is what the front end believes the engine's own modules to hold.
func NativeNames() map[string]string { return nativeNames }

// MissingBuiltins is what Check refuses by name.
func MissingBuiltins() []string {
	var out []string
	for n := range missingBuiltins {
		out = append(out, n)
	}
	return out
}

// Importable lists all modules that programs may import.
func Importable() []string { return importable() }
