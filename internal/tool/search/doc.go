// Package search finds tools by what somebody wants to do: BM25F over the words of a tool's name, server,
// description and parameters (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework").
//
//	terms.go      text -> terms: identifiers are split, plurals taken off, Chinese cut into pairs; queries cut into sentences
//	stem.go       what words of one family share
//	words.go      a thesaurus of the verbs and nouns that tools are named with
//	glossary.go   common Chinese words in English: many servers describe their tools in Chinese
//	index.go      tools come and go;   frozen.go: what a query reads;   query.go: one query
//	embed.go      the seam for an embedder, and one over HTTP;   vectors.go, vectorfile.go: what it said, kept
//	fuse.go       the two rankings made one
//
// Everything is in memory; vectors, which cost somebody's time or money, are kept in a file, too. The same tools and the same query give the same ranking, in whatever order the
// tools were added: equal scores are ordered by server and name. The package must never start a server or
// call a tool, and it reads nothing of a tool but what its server says of it.
package search
