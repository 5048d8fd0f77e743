package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// partyOf names a party of the store's first contract.
func partyOf(t testing.TB, h http.Handler) string {
	t.Helper()
	var list struct{ Contracts []struct{ Payer string } }
	if err := json.Unmarshal([]byte(mustAsk(t, h, "/v1/contracts?format=json&limit=1")), &list); err != nil {
		t.Fatal(err)
	}
	return list.Contracts[0].Payer
}
