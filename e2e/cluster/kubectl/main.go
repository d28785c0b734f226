// Command kubectl is the client of the embedded Kubernetes. It is a program of its own, because tests run it thousands of times
// and initialising all packages of kube-all takes most of its run time.
package main

import (
	"fmt"
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// The verbosity flag has to be known before the command is built, because building it already logs.
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) //nolint:errcheck // an unparsable level keeps the default
	// `wait` and `rollout status` begin with a list from the API server's cache, which on a busy machine may be older than
	// what the caller has seen; so that tests do not fail on that, they begin with a list that is as new as the store.
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "true"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints and exits with the code that belongs to the error
	}
}
