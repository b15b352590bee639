package files

// WatchLoop is what calls again and again.
var WatchLoop = watch
