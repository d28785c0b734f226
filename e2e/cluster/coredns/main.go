// Command coredns serves cluster DNS, with no more plugins than the embedded Kubernetes needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	// The order is the order in which a query passes the plugins.
	dnsserver.Directives = []string{"health", "ready", "errors", "cache", "kubernetes", "template"}
}

func main() {
	coremain.Run()
}
