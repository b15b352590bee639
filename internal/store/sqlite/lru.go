package sqlite

import "container/list"

// lru keeps values up to a total size and drops those that were not used for longest. Not safe for
// concurrent use.
type lru[K comparable, V any] struct {
	max, size int64
	order     list.List // newest first; elements hold *lruItem
	items     map[K]*list.Element
}

type lruItem[K comparable, V any] struct {
	key   K
	value V
	size  int64
}

func newLRU[K comparable, V any](max int64) *lru[K, V] {
	return &lru[K, V]{max: max, items: map[K]*list.Element{}}
}

func (l *lru[K, V]) get(key K) (V, bool) {
	e, ok := l.items[key]
	if !ok {
		var zero V
		return zero, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruItem[K, V]).value, true
}

// put keeps a value, unless it alone is larger than the cache.
func (l *lru[K, V]) put(key K, value V, size int64) {
	l.remove(key)
	if size > l.max {
		return
	}
	l.items[key] = l.order.PushFront(&lruItem[K, V]{key, value, size})
	for l.size += size; l.size > l.max; {
		l.remove(l.order.Back().Value.(*lruItem[K, V]).key)
	}
}

func (l *lru[K, V]) remove(key K) {
	e, ok := l.items[key]
	if !ok {
		return
	}
	l.size -= e.Value.(*lruItem[K, V]).size
	l.order.Remove(e)
	delete(l.items, key)
}
