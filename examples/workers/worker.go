// A worker in Go, with nothing but its standard library: go run worker.go PORT
//
// `fairlead fleet-worker --forward http://127.0.0.1:PORT` claims the jobs, keeps them alive and stores their results.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// errPermanent says that a retry would not help.
var errPermanent = errors.New("permanent")

// later asks for another attempt after some seconds.
type later int

func (l later) Error() string { return "busy" }

type job struct{ request *http.Request }

// post sends progress, or a checkpoint that the next attempt can continue from. 410: this attempt is over, so stop.
func (j job) post(what string, data any) error {
	body, _ := json.Marshal(data)
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Post(j.request.Header.Get("fairlead-callback")+"/"+what, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s: %s", what, answer.Status)
	}
	return nil
}

type handler func(payload map[string]any, j job) (any, error)

func resize(payload map[string]any, j job) (any, error) {
	if payload["key"] == nil {
		return nil, fmt.Errorf("the payload has no key: %w", errPermanent)
	}
	if payload["busy"] == true {
		return nil, later(30)
	}
	if err := j.post("progress", map[string]any{"done": 0.5}); err != nil {
		return nil, err
	}
	if err := j.post("checkpoint", map[string]any{"resized": payload["key"]}); err != nil {
		return nil, err
	}
	attempt, _ := strconv.Atoi(j.request.Header.Get("fairlead-attempt"))
	return map[string]any{"key": payload["key"], "attempt": attempt}, nil
}

var handlers = map[string]handler{
	"resize":      resize,
	"conformance": func(payload map[string]any, _ job) (any, error) { return payload, nil },
}

func serve(w http.ResponseWriter, r *http.Request) {
	handle, known := handlers[r.PathValue("type")]
	if !known {
		http.Error(w, "no such type", http.StatusNotFound)
		return
	}
	var payload map[string]any
	if err := json.NewDecoder(r.Body).Decode(&payload); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	// r.Context() is cancelled when the connection closes: then the job was cancelled.
	result, err := handle(payload, job{r})
	var wait later
	switch {
	case errors.As(err, &wait):
		w.Header().Set("retry-after", strconv.Itoa(int(wait)))
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case errors.Is(err, errPermanent):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("content-type", "application/json")
		json.NewEncoder(w).Encode(result)
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	http.HandleFunc("POST /jobs/{type}", serve)
	panic(http.Serve(listener, nil))
}
