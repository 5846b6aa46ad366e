// Package help holds the texts that `convert help TOPIC` shows.
package help

import "embed"

//go:embed *.md
var texts embed.FS

// Names gives the topics, in the order in which they are best read.
func Names() []string {
	return []string{"job", "layout", "mapping", "exit-codes", "json", "memory", "troubleshooting"}
}

// Find gives the text on a topic.
func Find(topic string) (text string, ok bool) {
	for _, n := range Names() {
		if n == topic {
			b, err := texts.ReadFile(n + ".md")
			return string(b), err == nil
		}
	}
	return "", false
}
