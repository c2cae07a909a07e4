// Command lease holds a lease with Go's standard library: acquire, fenced write, renew, release, events.
//
// Usage: LEASEHOLD_URL=… LEASEHOLD_TOKEN=… STORE_URL=… go run . KEY
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	answerTimeout = 20 * time.Second
	// A stream without news has a ping every three seconds.
	idleTimeout = 10 * time.Second
	triesMax    = 5
)

var (
	address  = os.Getenv("LEASEHOLD_URL")
	token    = os.Getenv("LEASEHOLD_TOKEN")
	storeURL = os.Getenv("STORE_URL")
	started  = time.Now()
)

// Refused is what Leasehold has refused, with the code of docs/errors.md.
type Refused struct {
	Message string
	Data    struct {
		LeaseholdCode string
		Retryable     bool
	}
}

func (r *Refused) Error() string { return r.Data.LeaseholdCode + ": " + r.Message }

type ref struct {
	LeaseID      string `json:"leaseId"`
	FencingToken string `json:"fencingToken"`
}

type lease struct {
	ref
	Deadlines struct{ RenewAtMs, LoseAtMs float64 }
}

// nowMs reads a clock that nobody sets. On Linux it stops while the machine sleeps: where machines sleep,
// read CLOCK_BOOTTIME instead, which needs golang.org/x/sys.
func nowMs() float64 { return float64(time.Since(started)) / float64(time.Millisecond) }

// call is a mutation: a POST with its input as the body.
func call(procedure string, given, answer any) error {
	body, err := json.Marshal(given)
	if err != nil {
		return err
	}
	return send(http.MethodPost, address+"/trpc/"+procedure, body, answer)
}

// ask is a query: a GET with its input in the address.
func ask(procedure string, given, answer any) error {
	target, err := addressOf(procedure, given)
	if err != nil {
		return err
	}
	return send(http.MethodGet, target, nil, answer)
}

func addressOf(procedure string, given any) (string, error) {
	input, err := json.Marshal(given)
	query := url.Values{"input": {string(input)}}
	return address + "/trpc/" + procedure + "?" + query.Encode(), err
}

func send(method, target string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("authorization", "Bearer "+token)
	if body != nil {
		request.Header.Set("content-type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	read := struct {
		Result struct{ Data json.RawMessage }
		Error  *Refused
	}{}
	if err := json.NewDecoder(response.Body).Decode(&read); err != nil {
		return err
	}
	if read.Error != nil {
		return read.Error
	}
	return json.Unmarshal(read.Result.Data, answer)
}

func acquire(key, holder string, ttl, wait time.Duration) (*lease, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	// If no answer comes, the same request with the same key is granted only once.
	idempotencyKey := fmt.Sprintf("%x", id)
	var answer struct {
		Outcome string
		Lease   lease
	}
	for tries := 0; ; tries++ {
		err := call("leases.acquire", map[string]any{
			"namespace": []string{"examples"}, "key": key, "holder": holder,
			"ttlMs": ttl.Milliseconds(), "waitMs": wait.Milliseconds(),
			"localTimeMs": nowMs(), "idempotencyKey": idempotencyKey,
		}, &answer)
		if err == nil {
			break
		}
		var refused *Refused
		if errors.As(err, &refused) && !refused.Data.Retryable {
			return nil, err
		}
		if tries == triesMax {
			_ = call("leases.cancel", map[string]any{"idempotencyKey": idempotencyKey}, &struct{}{})
			return nil, err
		}
		time.Sleep(100 * time.Millisecond << tries)
	}
	if answer.Outcome != "granted" {
		return nil, errors.New("not granted: " + answer.Outcome)
	}
	return &answer.Lease, nil
}

// renew is to be called in a loop, at RenewAtMs of each answer. Stop the work at LoseAtMs.
func renew(held *lease) (string, error) {
	var answer struct {
		Results []struct {
			Outcome   string
			Deadlines struct{ RenewAtMs, LoseAtMs float64 }
		}
	}
	given := map[string]any{"localTimeMs": nowMs(), "renewals": []ref{held.ref}}
	if err := call("leases.heartbeat", given, &answer); err != nil {
		return "", err
	}
	result := answer.Results[0]
	if result.Outcome == "renewed" {
		held.Deadlines = result.Deadlines
	}
	return result.Outcome, nil
}

func release(held *lease) (string, error) {
	var answer struct{ Outcome string }
	err := call("leases.release", held.ref, &answer)
	return answer.Outcome, err
}

// write is a fenced write: the store refuses it if it has seen a larger token.
func write(key, fencingToken, value string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, storeURL+"/"+key, strings.NewReader(value))
	if err != nil {
		return "", err
	}
	request.Header.Set("fencing-token", fencingToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return strings.TrimSpace(string(answer)), err
}

type event struct{ ID, Kind string }

// watch calls take with events as they happen, each once, until it returns false. A stream that breaks, or was
// refused for now, continues after the last event.
func watch(ctx context.Context, wanted any, lastID string, take func(event) bool) error {
	target, err := addressOf("events.watch", wanted)
	if err != nil {
		return err
	}
	isOver := false
	for !isOver {
		err := follow(ctx, target, lastID, func(one event) bool {
			lastID = one.ID
			isOver = !take(one)
			return !isOver
		})
		var refused *Refused
		if errors.As(err, &refused) && !refused.Data.Retryable {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !isOver {
			fmt.Fprintln(os.Stderr, "connecting again:", err)
			time.Sleep(time.Second)
		}
	}
	return nil
}

// follow reads one stream, until it ends, take returns false, or no line has come for idleTimeout.
func follow(ctx context.Context, target, lastID string, take func(event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(idleTimeout, cancel)
	defer idle.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	request.Header.Set("authorization", "Bearer "+token)
	request.Header.Set("last-event-id", lastID)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var read struct{ Error *Refused }
		if json.NewDecoder(response.Body).Decode(&read) == nil && read.Error != nil {
			return read.Error
		}
		// A proxy has answered.
		return errors.New(response.Status)
	}
	return eventsIn(response.Body, func() { idle.Reset(idleTimeout) }, take)
}

func eventsIn(stream io.Reader, onLine func(), take func(event) bool) error {
	fields := map[string]string{}
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		onLine()
		if name, value, _ := strings.Cut(lines.Text(), ": "); name != "" {
			fields[name] = value
			continue
		}
		if fields["event"] == "serialized-error" {
			var refused Refused
			if err := json.Unmarshal([]byte(fields["data"]), &refused); err != nil {
				return err
			}
			return &refused
		}
		// Events without an id are of the stream itself, such as pings.
		if fields["id"] != "" {
			var one event
			if err := json.Unmarshal([]byte(fields["data"]), &one); err != nil {
				return err
			}
			if !take(one) {
				return nil
			}
		}
		fields = map[string]string{}
	}
	return lines.Err()
}

func run(key string) error {
	host, _ := os.Hostname()
	holder := "go on " + host
	var head struct{ LastID string }
	if err := ask("events.head", struct{}{}, &head); err != nil {
		return err
	}
	first, err := acquire(key, holder, 10*time.Second, 5*time.Second)
	if err != nil {
		return err
	}
	fmt.Println("acquired with token", first.FencingToken)
	if err := show("the store:", func() (string, error) { return write(key, first.FencingToken, "by "+holder) }); err != nil {
		return err
	}
	if err := show("", func() (string, error) { return renew(first) }); err != nil {
		return err
	}
	fmt.Println("time left:", yesOrNo(first.Deadlines.LoseAtMs > nowMs()))
	if err := show("", func() (string, error) { return release(first) }); err != nil {
		return err
	}

	second, err := acquire(key, holder, 10*time.Second, 5*time.Second)
	if err != nil {
		return err
	}
	fmt.Println("acquired again with a larger token:", yesOrNo(isLarger(second.FencingToken, first.FencingToken)))
	if err := show("the store:", func() (string, error) { return write(key, second.FencingToken, "by the second grant") }); err != nil {
		return err
	}
	if err := show("the store, to a late write of the first grant:", func() (string, error) { return write(key, first.FencingToken, "late") }); err != nil {
		return err
	}
	if err := show("", func() (string, error) { return release(second) }); err != nil {
		return err
	}

	// From before the first grant: nothing is missed.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	seen := 0
	wanted := map[string]any{"namespace": "examples", "name": key}
	return watch(ctx, wanted, head.LastID, func(one event) bool {
		fmt.Println("event:", one.Kind)
		seen++
		return seen < 4
	})
}

func show(what string, work func() (string, error)) error {
	answer, err := work()
	if err == nil {
		fmt.Println(strings.TrimSpace(what + " " + answer))
	}
	return err
}

// isLarger compares tokens as numbers: as texts "9" would be larger than "10".
func isLarger(one, other string) bool {
	a, _ := strconv.ParseInt(one, 10, 64)
	b, _ := strconv.ParseInt(other, 10, 64)
	return a > b
}

func yesOrNo(isSo bool) string {
	if isSo {
		return "yes"
	}
	return "no"
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
