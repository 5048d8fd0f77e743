package watch

import "slices"

// Needs lists the words of VenueState.Needs.
func Needs() []string { return slices.Clone(needWords[:]) }

// Asks lists what a venue is asked for: the words of Listener.Request.
func Asks() []string { return []string{"page", "export", "notes", "limits"} }
