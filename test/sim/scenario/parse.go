package scenario

import (
	"slices"
	"strings"
	"time"
)

// Script is a parsed script.
type Script struct {
	setup setup
	nodes []string // in order of their making
	steps []step

	watched  []watch // what conditions count
	stepsMax int     // events of the network
	bytesMax int     // of all messages
}

// step is one line of a script.
type step struct {
	line int
	text string
	run  func(w *world) error
}

// The constants below are limits for scripts.
const (
	nodesMax = 15
	linesMax = 2000
)

// parser holds the declarations of the lines parsed so far.
type parser struct {
	script *Script
	kept   []string
	w      *words
}

// verbs maps each command to its parse function, which returns the action of the line.
var verbs map[string]func(*parser) func(*world) error

func init() {
	verbs = map[string]func(*parser) func(*world) error{
		"network":  (*parser).parseNetwork,
		"node":     (*parser).parseNode,
		"path":     (*parser).parsePath,
		"handler":  (*parser).parseHandler,
		"expose":   (*parser).parseExpose,
		"unexpose": (*parser).parseUnexpose,
		"faults":   (*parser).parseFaults,
		"connect":  (*parser).parseConnect,
		"link":     (*parser).parseLink,
		"send":     (*parser).parseSend,
		"put":      (*parser).parsePut,
		"flush":    (*parser).parseFlush,
		"close":    (*parser).parseClose,
		"abort":    (*parser).parseAbort,
		"drain":    (*parser).parseDrain,
		"stop":     (*parser).parseStop,
		"crash":    (*parser).parseCrash,
		"restart":  (*parser).parseRestart,
		"pause":    (*parser).parsePause,
		"pace":     (*parser).parsePace,
		"drop":     (*parser).parseDrop,
		"dup":      (*parser).parseDup,
		"delay":    (*parser).parseDelay,
		"cut":      (*parser).parseCut,
		"heal":     (*parser).parseHeal,
		"keep":     (*parser).parseKeep,
		"inject":   (*parser).parseInject,
		"run":      (*parser).parseRun,
		"expect":   (*parser).parseExpect,
	}
}

// Parse parses a script, and returns errors of type *SyntaxError.
func Parse(script string) (*Script, error) {
	p := &parser{script: &Script{stepsMax: stepsMax, bytesMax: bytesMax}}
	for i, text := range strings.Split(script, "\n") {
		if i >= linesMax {
			return nil, &SyntaxError{Line: i + 1, Msg: "too many lines"}
		}
		p.w = splitWords(i+1, text)
		if len(p.w.pos) == 0 && p.w.err == nil && len(p.w.keys) == 0 {
			continue
		}
		verb := p.w.next("a command")
		parse := verbs[verb]
		if parse == nil {
			p.w.fail("unknown command %q", verb)
			return nil, p.w.err
		}
		run := parse(p)
		p.w.end()
		if p.w.err != nil {
			return nil, p.w.err
		}
		if run != nil {
			p.script.steps = append(p.script.steps, step{i + 1, strings.TrimSpace(text), run})
		}
	}
	return p.script, nil
}

// The method node parses the name of a declared node.
func (p *parser) node() string {
	s := p.w.next("a node")
	p.knownNode(s)
	return s
}

func (p *parser) knownNode(s string) {
	if !slices.Contains(p.script.nodes, s) {
		p.w.fail("unknown node %q", s)
	}
}

// route is a direction between two nodes.
type route struct{ from, to string }

func (r route) String() string { return r.from + ">" + r.to }

// The method route parses "a>b".
func (p *parser) route() route {
	s := p.w.next("a route a>b")
	from, to, ok := strings.Cut(s, ">")
	if !ok {
		p.w.fail("%q is no route a>b", s)
		return route{}
	}
	p.knownNode(from)
	p.knownNode(to)
	return route{from, to}
}

// routes parses "a>b", or "a<>b" for both directions.
func (p *parser) routes() []route {
	from, to, ok := strings.Cut(p.w.peek(), "<>")
	if !ok {
		return []route{p.route()}
	}
	p.w.next("")
	p.knownNode(from)
	p.knownNode(to)
	return []route{{from, to}, {to, from}}
}

func (p *parser) parseRun() func(*world) error {
	if p.w.accept("until") {
		cond := p.condition()
		limit := 10 * time.Second
		if p.w.accept("within") {
			limit = p.w.nextDuration()
		}
		return func(w *world) error {
			w.waiting = true // packets count from now on
			c := cond(w)
			w.waiting = false
			return w.runUntil(c, limit)
		}
	}
	d := p.w.nextDuration()
	return func(w *world) error { return w.runFor(d) }
}

func (p *parser) parseExpect() func(*world) error {
	not := p.w.accept("not")
	cond := p.condition()
	return func(w *world) error {
		holds, is := cond(w)()
		if holds != not {
			return nil
		}
		return w.errorf("it is not so: %s", is)
	}
}
