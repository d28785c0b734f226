// Tests of alerts and of pages of metrics, by Prometheus' own packages.
//
//	alerts rules RULES TESTS   evaluates the rules over the series of the tests; TESTS is a file as `promtool test rules` takes it
//	alerts metrics < PAGE      says what Prometheus' linter says of a page, as `promtool check metrics` does
//
// Prints a line for each thing that is wrong, and ends with 1 then.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v2"
)

// The keys of promtool's files that the tests here use; others are refused.
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []testCase     `yaml:"tests"`
}

type testCase struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	AlertRuleTests []alertTest `yaml:"alert_rule_test"`
}

type alertTest struct {
	EvalTime  model.Duration `yaml:"eval_time"`
	Alertname string         `yaml:"alertname"`
	ExpAlerts []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

func main() {
	var wrong []string
	switch arguments := os.Args[1:]; {
	case len(arguments) == 3 && arguments[0] == "rules":
		wrong = testRules(arguments[1], arguments[2])
	case len(arguments) == 1 && arguments[0] == "metrics":
		wrong = checkMetrics()
	default:
		wrong = []string{"usage: alerts rules RULES TESTS, or alerts metrics < PAGE"}
	}
	for _, line := range wrong {
		fmt.Println(line)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
}

func checkMetrics() []string {
	problems, err := promlint.New(os.Stdin).Lint()
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	for _, problem := range problems {
		wrong = append(wrong, problem.Metric+": "+problem.Text)
	}
	return wrong
}

func testRules(ruleFile, path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	var file testFile
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return []string{path + ": " + err.Error()}
	}
	if file.EvaluationInterval == 0 || len(file.Tests) == 0 {
		return []string{path + ": needs evaluation_interval and tests"}
	}
	var wrong []string
	tested := map[string]bool{}
	for _, test := range file.Tests {
		found := test.run(ruleFile, time.Duration(file.EvaluationInterval), tested)
		for _, line := range found {
			wrong = append(wrong, test.Name+": "+line)
		}
	}
	// An alert that no test sees fire may never fire.
	if len(wrong) == 0 {
		for name, fired := range tested {
			if !fired {
				wrong = append(wrong, "no test has "+name+" fire")
			}
		}
		slices.Sort(wrong)
	}
	return wrong
}

func (test testCase) run(ruleFile string, step time.Duration, tested map[string]bool) (wrong []string) {
	var load strings.Builder
	fmt.Fprintf(&load, "load %s\n", test.Interval)
	for _, series := range test.InputSeries {
		fmt.Fprintf(&load, "  %s %s\n", series.Series, series.Values)
	}
	loader, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{})
	if err != nil {
		return []string{err.Error()}
	}
	defer func() {
		if err := loader.Close(); err != nil {
			wrong = append(wrong, err.Error())
		}
	}()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()),
		Appendable: loader.Storage(),
		Queryable:  loader.Storage(),
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     slog.New(slog.DiscardHandler),
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, ruleFile)
	if len(errs) > 0 {
		for _, err := range errs {
			wrong = append(wrong, err.Error())
		}
		return wrong
	}
	alerting := map[string]*rules.AlertingRule{}
	for _, group := range groups {
		for _, rule := range group.Rules() {
			alert, is := rule.(*rules.AlertingRule)
			if !is {
				continue
			}
			alert.SetRestored(true)
			alerting[alert.Name()] = alert
			tested[alert.Name()] = tested[alert.Name()]
		}
	}
	last := time.Duration(0)
	for _, wanted := range test.AlertRuleTests {
		if alerting[wanted.Alertname] == nil {
			return []string{"there is no alert " + wanted.Alertname}
		}
		if time.Duration(wanted.EvalTime)%step != 0 {
			return []string{fmt.Sprintf("%s is no multiple of %s", wanted.EvalTime, step)}
		}
		last = max(last, time.Duration(wanted.EvalTime))
	}
	for since := time.Duration(0); since <= last; since += step {
		now := time.Unix(0, 0).UTC().Add(since)
		loader.WithSamplesTill(now, func(err error) {
			if err != nil {
				wrong = append(wrong, err.Error())
				return
			}
			for _, group := range groups {
				group.Eval(loader.Context(), now)
				for _, rule := range group.Rules() {
					if err := rule.LastError(); err != nil {
						wrong = append(wrong, rule.Name()+": "+err.Error())
					}
				}
			}
		})
		if len(wrong) > 0 {
			return wrong
		}
		for _, wanted := range test.AlertRuleTests {
			if time.Duration(wanted.EvalTime) != since {
				continue
			}
			expected, got := wanted.expected(), firing(alerting[wanted.Alertname])
			if len(got) > 0 {
				tested[wanted.Alertname] = true
			}
			if !slices.Equal(expected, got) {
				wrong = append(wrong, fmt.Sprintf("%s at %s\n  expected %s\n  got      %s",
					wanted.Alertname, wanted.EvalTime, strings.Join(expected, "\n           "), strings.Join(got, "\n           ")))
			}
		}
	}
	return wrong
}

// The alerts that a test expects, as text.
func (wanted alertTest) expected() []string {
	var all []string
	for _, alert := range wanted.ExpAlerts {
		with := maps.Clone(alert.Labels)
		if with == nil {
			with = map[string]string{}
		}
		with[labels.AlertName] = wanted.Alertname
		all = append(all, labels.FromMap(with).String()+" "+labels.FromMap(alert.Annotations).String())
	}
	slices.Sort(all)
	return all
}

// The alerts that fire, as text.
func firing(rule *rules.AlertingRule) []string {
	var all []string
	for _, alert := range rule.ActiveAlerts() {
		if alert.State == rules.StateFiring {
			all = append(all, alert.Labels.String()+" "+alert.Annotations.String())
		}
	}
	slices.Sort(all)
	return all
}
