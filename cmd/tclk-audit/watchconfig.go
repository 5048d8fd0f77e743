package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/tclk-audit/tclk-audit/internal/watch"
)

// watchFlags are the settings of watch that are the same for all venues, or the
// defaults of those that a venue can have for itself.
type watchFlags struct {
	config string

	data       dataFlag
	surface    surfaceFlags
	rules      ruleFlags
	rulesGiven bool
	acceptLoss bool
	venues     []string
	rooms      []string
	once       bool
	settle     time.Duration
	warnBefore time.Duration
	readyLag   time.Duration
	logFormat  choice
	logLevel   choice
	venueSettings
}

// venueSettings are what each venue can have for itself.
type venueSettings struct {
	Notes          bool
	Live           int
	Linger         time.Duration
	Share          float64
	ReadsPerMinute int
	BoardEvery     time.Duration
	HotEvery       time.Duration
	ColdEvery      time.Duration
	HotBefore      time.Duration
}

func (f *watchFlags) register(cmd *cobra.Command) {
	f.data.register(cmd)
	f.surface.register(cmd)
	cmd.Flags().Lookup("listen").Usage = "answer over HTTP on this `address`, host:port; none: nowhere"
	f.rules.register(cmd, "fold under `spec` or reference: of a new store; one that is there keeps its own")
	f.logFormat = choice{value: "auto", allowed: []string{"auto", "json", "text"}}
	f.logLevel = choice{value: "info", allowed: []string{"debug", "info", "warn", "error"}}
	fs := cmd.Flags()
	fs.StringArrayVar(&f.venues, "venue", nil, "watch the venue at this `URL`, or ALIAS=URL; may be given again")
	fs.StringArrayVar(&f.rooms, "room", nil, "follow this `room` too; may be given again")
	fs.BoolVar(&f.once, "once", false, "read everything one time, and exit with the codes of verify")
	fs.BoolVar(&f.acceptLoss, "accept-loss", false, "go on with a store that has lost the end of what it acknowledged")
	fs.DurationVar(&f.settle, "settle-grace", time.Minute, "how far conclusions that need no row stay behind the venue's clock")
	fs.DurationVar(&f.warnBefore, "warn-before", 10*time.Minute, "warn so long before the refund deadline of a lock without a reveal; 0 never, else at least 30s")
	fs.DurationVar(&f.readyLag, "ready-lag", 30*time.Second, "how long ago the board may have been read for /readyz to say ready; more than --board-every")
	fs.Var(&f.logFormat, "log-format", "the `form` of logs: json or text; auto shows a live view on a terminal, else json")
	fs.Var(&f.logLevel, "log-level", "the least `level` of logs: debug, info, warn or error")
	fs.BoolVar(&f.Notes, "notes", false, "look for deal rooms in the venue's state notes: namespaces tclk-00 to tclk-ff, once an hour each, whose keys are the other 14 digits")
	fs.IntVar(&f.Live, "live", 2000, "read at most `N` deal rooms in turn; others wait, by need")
	fs.DurationVar(&f.Linger, "linger", time.Hour, "read a room so long after its contract came to an end, for receipts")
	fs.Float64Var(&f.Share, "share", 0.8, "use this `share` of the venue's read budget")
	fs.IntVar(&f.ReadsPerMinute, "reads-per-minute", 0, "the venue's read budget, `N` a minute, in place of what it publishes")
	fs.DurationVar(&f.BoardEvery, "board-every", 5*time.Second, "read the board so often")
	fs.DurationVar(&f.HotEvery, "hot-every", 20*time.Second, "read a room so often that a deadline is near for")
	fs.DurationVar(&f.ColdEvery, "cold-every", 150*time.Second, "read any other room at least so often, budget permitting; four times that where little can come of it")
	fs.DurationVar(&f.HotBefore, "hot-before", 15*time.Minute, "a lock's deadline is near so long before it")
}

// watchConfig is what is in force.
type watchConfig struct {
	flags   *watchFlags
	options watch.Options
	set     *cobra.Command // has the flags with their values
	stray   []string       // variables that look like settings
}

// configFile is the file of --config: names of flags, and venues.
type configFile struct {
	Venues []venueFile          `yaml:"venues"`
	Flags  map[string]yaml.Node `yaml:",inline"`
}

// venueFile is a venue there. What is left out is as the flags say.
type venueFile struct {
	Alias          string         `yaml:"alias"`
	URL            string         `yaml:"url"`
	Rooms          []string       `yaml:"rooms,omitempty"`
	Notes          *bool          `yaml:"notes,omitempty"`
	Live           *int           `yaml:"live,omitempty"`
	Linger         *time.Duration `yaml:"linger,omitempty"`
	Share          *float64       `yaml:"share,omitempty"`
	ReadsPerMinute *int           `yaml:"reads-per-minute,omitempty"`
	BoardEvery     *time.Duration `yaml:"board-every,omitempty"`
	HotEvery       *time.Duration `yaml:"hot-every,omitempty"`
	ColdEvery      *time.Duration `yaml:"cold-every,omitempty"`
	HotBefore      *time.Duration `yaml:"hot-before,omitempty"`
}

// notInFile are flags that are about one run.
var notInFile = []string{"config", "print-config", "help", "once", "accept-loss", "venue"}

// maxConfig is how long the file may be, bytes.
const maxConfig = 1 << 20

// slice is a flag that holds a list.
type slice interface{ Replace([]string) error }

// resolve puts together what flags, environment and file say.
func (f *watchFlags) resolve(cmd *cobra.Command) (*watchConfig, error) {
	set := &cobra.Command{}
	c := &watchConfig{flags: &watchFlags{}, set: set}
	c.flags.register(set)
	var file configFile
	path := f.config
	if env := os.Getenv("TCLK_CONFIG"); path == "" {
		path = env
	}
	if path != "" {
		var err error
		if file, err = readConfig(path); err != nil {
			return nil, err
		}
		for name, node := range file.Flags {
			if set.Flags().Lookup(name) == nil || slices.Contains(notInFile, name) {
				return nil, &usageError{text: fmt.Sprintf("%s: line %d: there is no setting %q", path, node.Line, name), hint: "settings have the names of flags, 'tclk-audit watch --help' lists them; venues is a list, and what is about one run has no place here"}
			}
			if err := setNode(set, name, &node); err != nil {
				return nil, &usageError{text: fmt.Sprintf("%s: line %d: %s: %v", path, node.Line, name, err), hint: "write it as on the command line"}
			}
		}
	}
	chosen := map[string]bool{} // by flag or environment: they come before what a venue has for itself
	var failed error
	names := cmd.Flags()
	for _, name := range flagNames(set) {
		env := os.Getenv("TCLK_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		given := names.Lookup(name)
		var err error
		switch to := set.Flags().Lookup(name); {
		case given.Changed:
			if list, ok := given.Value.(interface{ GetSlice() []string }); ok {
				err = to.Value.(slice).Replace(list.GetSlice())
			} else {
				err = to.Value.Set(given.Value.String())
			}
		case env != "" && name != "config":
			if list, ok := to.Value.(slice); ok {
				err = list.Replace(strings.Split(env, ","))
			} else {
				err = to.Value.Set(env)
			}
		default:
			continue
		}
		chosen[name] = true
		set.Flags().Lookup(name).Changed = true
		if err != nil {
			from := "--" + name
			if !given.Changed {
				from = "TCLK_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
			}
			failed = errors.Join(failed, &usageError{text: fmt.Sprintf("%s: %v", from, err), hint: "write it as on the command line"})
		}
	}
	if failed != nil {
		return nil, failed
	}
	c.flags.rulesGiven = set.Flags().Changed("rules") || set.Flags().Changed("rule") || has(file.Flags, "rules") || has(file.Flags, "rule")
	if has(file.Flags, "data") && !chosen["data"] {
		set.Flags().Lookup("data").Changed = true
	}
	c.stray = strayVariables(set)
	return c, c.fill(&file, chosen)
}

// perVenue are the settings that can change while the watcher runs.
var perVenue = []string{"venue", "room", "notes", "live", "linger", "share", "reads-per-minute", "board-every", "hot-every", "cold-every", "hot-before"}

// needRestart lists the settings that are not those that the watcher began with,
// and that it cannot take over while it runs.
func (c *watchConfig) needRestart(began *watchConfig) (names []string) {
	for _, name := range flagNames(c.set) {
		if !slices.Contains(perVenue, name) && c.set.Flags().Lookup(name).Value.String() != began.set.Flags().Lookup(name).Value.String() {
			names = append(names, name)
		}
	}
	return names
}

// strayVariables lists variables that look like settings and are none.
func strayVariables(set *cobra.Command) (names []string) {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		setting, ok := strings.CutPrefix(name, "TCLK_")
		if !ok || setting == "CONFIG" {
			continue
		}
		flag := strings.ReplaceAll(strings.ToLower(setting), "_", "-")
		if set.Flags().Lookup(flag) == nil || setting != strings.ToUpper(setting) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func has(m map[string]yaml.Node, name string) bool { _, ok := m[name]; return ok }

func readConfig(path string) (file configFile, err error) {
	in, err := os.Open(path)
	if err != nil {
		return file, &hintedError{fmt.Errorf("reading the configuration: %w", err), "--config names the file"}
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxConfig+1))
	if err != nil {
		return file, &hintedError{fmt.Errorf("reading the configuration: %w", err), "--config names the file"}
	}
	if len(text) > maxConfig {
		return file, &usageError{text: fmt.Sprintf("%s is longer than 1 MiB", path), hint: "it is no configuration"}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return file, &usageError{text: path + ": " + plainYAML(err), hint: "'tclk-audit watch --venue https://technocore.chat --print-config' shows what it looks like"}
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return file, &usageError{text: path + ": it holds more than one document", hint: "leave one"}
	}
	return file, nil
}

// plainYAML says what is wrong with a file without the words of this program's
// code.
func plainYAML(err error) string {
	text := err.Error()
	var types *yaml.TypeError
	if errors.As(err, &types) && len(types.Errors) > 0 {
		text = types.Errors[0]
	}
	text = strings.TrimPrefix(text, "yaml: ")
	for _, r := range [][2]string{{"in type main.venueFile", "of a venue"}, {"in type main.configFile", ""}, {"into []main.venueFile", "into a list of venues"}, {"into main.venueFile", "into a venue"}, {"into main.configFile", "into settings"}, {"field ", "there is no setting "}, {" not found", ""}} {
		text = strings.ReplaceAll(text, r[0], r[1])
	}
	return strings.TrimSpace(text)
}

// setNode sets a flag to what stands in the file.
func setNode(set *cobra.Command, name string, node *yaml.Node) error {
	flag := set.Flags().Lookup(name)
	if node.Kind == yaml.SequenceNode {
		list, ok := flag.Value.(slice)
		if !ok {
			return errors.New("it is no list")
		}
		var words []string
		if err := node.Decode(&words); err != nil {
			return errors.New("it is a list of words")
		}
		return list.Replace(words)
	}
	if node.Kind != yaml.ScalarNode {
		return errors.New("it is a single value")
	}
	if list, ok := flag.Value.(slice); ok {
		return list.Replace([]string{node.Value})
	}
	return flag.Value.Set(node.Value)
}

func flagNames(set *cobra.Command) (names []string) {
	for name := range strings.FieldsSeq(watchFlagOrder) {
		if set.Flags().Lookup(name) != nil {
			names = append(names, name)
		}
	}
	return names
}

// watchFlagOrder is the order in which settings are printed.
const watchFlagOrder = `data rules rule venue room notes live linger share reads-per-minute board-every hot-every cold-every hot-before
settle-grace warn-before listen allow-host cors-origin pprof ready-lag log-format log-level once accept-loss`

// fill makes the watcher's options.
func (c *watchConfig) fill(file *configFile, chosen map[string]bool) error {
	f := c.flags
	list := file.Venues
	if len(f.venues) > 0 {
		list = nil
		for _, v := range f.venues {
			alias, url, ok := strings.Cut(v, "=")
			if !ok || strings.Contains(alias, ":") {
				alias, url = "", v
			}
			list = append(list, venueFile{Alias: alias, URL: url})
		}
	}
	if len(list) == 0 {
		return &usageError{text: "watch needs a venue", hint: "--venue https://technocore.chat, or venues in the file of --config"}
	}
	c.options = watch.Options{Settle: orOff(f.settle), WarnBefore: orOff(f.warnBefore)}
	for _, v := range list {
		if v.URL == "" {
			return &usageError{text: "a venue has no url", hint: "give it, as in https://technocore.chat"}
		}
		if v.Alias == "" {
			v.Alias = watch.DefaultAlias(v.URL)
		}
		o := watch.Venue{
			Alias: v.Alias, Origin: v.URL, Rooms: append(slices.Clone(v.Rooms), f.rooms...), Notes: f.Notes, Live: f.Live, Linger: f.Linger, Share: f.Share,
			ReadsPerMinute: f.ReadsPerMinute, BoardEvery: f.BoardEvery, HotEvery: f.HotEvery, ColdEvery: f.ColdEvery, HotBefore: f.HotBefore,
		}
		own(&o.Notes, v.Notes, chosen["notes"])
		own(&o.Live, v.Live, chosen["live"])
		own(&o.Linger, v.Linger, chosen["linger"])
		own(&o.Share, v.Share, chosen["share"])
		own(&o.ReadsPerMinute, v.ReadsPerMinute, chosen["reads-per-minute"])
		own(&o.BoardEvery, v.BoardEvery, chosen["board-every"])
		own(&o.HotEvery, v.HotEvery, chosen["hot-every"])
		own(&o.ColdEvery, v.ColdEvery, chosen["cold-every"])
		own(&o.HotBefore, v.HotBefore, chosen["hot-before"])
		c.options.Venues = append(c.options.Venues, o)
	}
	return nil
}

// own takes what a venue has for itself, unless a flag says otherwise.
func own[T any](to *T, from *T, chosen bool) {
	if from != nil && !chosen {
		*to = *from
	}
}

// orOff makes 0 what the watcher takes for never.
func orOff(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// printConfig prints what is in force, as a file for --config.
func (a *app) printConfig(c *watchConfig) error {
	if err := c.options.Check(); err != nil {
		return &usageError{text: err.Error(), hint: "see the flag or the file that says so"}
	}
	doc := &yaml.Node{Kind: yaml.MappingNode}
	put := func(name string, value any) error {
		var node yaml.Node
		if err := node.Encode(value); err != nil {
			return err
		}
		doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &node)
		return nil
	}
	for _, name := range flagNames(c.set) {
		if slices.Contains(notInFile, name) || slices.Contains(perVenue, name) {
			continue
		}
		flag := c.set.Flags().Lookup(name)
		var value any = flag.Value.String()
		if list, ok := flag.Value.(interface{ GetSlice() []string }); ok {
			value = list.GetSlice()
		} else if flag.Value.Type() == "bool" {
			value = flag.Value.String() == "true"
		}
		if name == "data" {
			dir, err := c.flags.data.path(c.set)
			if err != nil {
				return err
			}
			value = dir
		}
		if (name == "rules" || name == "rule") && !c.flags.rulesGiven || name == "rule" && flag.Value.String() == "" {
			continue // a store that is there keeps its own
		}
		if err := put(name, value); err != nil {
			return err
		}
	}
	var venues []venueFile
	for i := range c.options.Venues {
		v := &c.options.Venues[i]
		venues = append(venues, venueFile{
			v.Alias, v.Origin, v.Rooms, &v.Notes, &v.Live, &v.Linger, &v.Share, &v.ReadsPerMinute, &v.BoardEvery, &v.HotEvery, &v.ColdEvery, &v.HotBefore,
		})
	}
	if err := put("venues", venues); err != nil {
		return err
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		return err
	}
	return a.print(out)
}
