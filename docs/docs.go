// Package docs holds what of this folder the program serves itself.
package docs

import _ "embed" // the document is part of the program

// OpenAPI is the OpenAPI document of the server that tclk-audit serve runs, in
// JSON: openapi.json.
//
//go:embed openapi.json
var OpenAPI []byte
