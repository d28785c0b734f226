// Command kube-all is every server of the embedded Kubernetes in one binary, which links in a sixth of the time and
// space that six binaries would take. The program is chosen by the name it is called under, or else by the first
// argument: `kube-all etcd --data-dir …`.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJob time zones, on machines without a zone database

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps each name to a function that runs the program with os.Args and returns its exit code.
var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          command(func() *cobra.Command { return apiserver.NewAPIServerCommand() }),
	"kube-controller-manager": command(func() *cobra.Command { return controllermanager.NewControllerManagerCommand() }),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              command(func() *cobra.Command { return proxy.NewProxyCommand() }),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
}

func command(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func main() {
	if run, ok := programs[filepath.Base(os.Args[0])]; ok {
		os.Exit(run())
	}
	if len(os.Args) > 1 {
		if run, ok := programs[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			os.Exit(run())
		}
	}
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "usage: %s PROGRAM [FLAG…]\nprograms: %s\n", filepath.Base(os.Args[0]), strings.Join(names, " "))
	os.Exit(2)
}
