package confine

import "os"

// SystemRuntime is what almost every program needs of the host: the system's programs and libraries, what
// they look up in /etc, and nothing of any user. What does not exist is left out.
func SystemRuntime() []Mount {
	var mounts []Mount
	for _, path := range []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
		"/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/ssl/openssl.cnf",
		"/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/fonts", "/etc/matplotlibrc", "/etc/services", "/etc/protocols",
		"/nix/store", "/gnu/store",
	} {
		if _, err := os.Stat(path); err == nil {
			mounts = append(mounts, Mount{Source: path})
		}
	}
	return mounts
}
