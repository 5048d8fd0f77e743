package report

// VersionSchema names the object that [AppendBuild] writes.
const VersionSchema = "tclk-audit.version/1"

// Build says which build of the program this is.
type Build struct {
	Version  string
	Commit   string // "" where the build does not know
	Modified bool   // built from a tree with local changes
	Go       string // the Go release, such as go1.26.8
	Platform string // such as linux/amd64
}

// String says the build in one line, with a newline.
func (b Build) String() string {
	s := "tclk-audit " + b.Version
	if b.Commit != "" {
		s += " commit " + b.Commit
		if b.Modified {
			s += " with local changes"
		}
	}
	return s + " " + b.Go + " " + b.Platform + "\n"
}

// AppendBuild appends the build as one JSON object on one line, with a newline.
func AppendBuild(dst []byte, b Build) []byte {
	e := &encoder{buf: dst, first: true}
	e.open('{')
	e.key("schema")
	e.string(VersionSchema)
	e.key("version")
	e.string(b.Version)
	e.key("commit")
	e.stringOrNull(b.Commit)
	e.key("modified")
	e.bool(b.Modified)
	e.key("go")
	e.string(b.Go)
	e.key("platform")
	e.string(b.Platform)
	e.close('}')
	return append(e.buf, '\n')
}
