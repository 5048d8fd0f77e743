module github.com/tclk-audit/tclk-audit

go 1.26
