package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"time"
)

// An update is what a receiver gets.
type update struct {
	From   string    `json:"from"` // the process that sends it
	Tick   time.Time `json:"tick"`
	Policy policy    `json:"policy"`
}

// send sends the policy of a tick to all receivers, one after the other.
func (s *server) send(ctx context.Context, tick time.Time) error {
	body, err := json.Marshal(update{From: s.name, Tick: tick, Policy: policyAt(tick)})
	if err != nil {
		return err
	}
	for _, receiver := range s.receivers {
		if err := post(ctx, "http://"+receiver+"/policy", body); err != nil {
			return err
		}
	}
	return nil
}

// receiverClient goes to the receivers themselves, whatever proxy the
// environment names.
var receiverClient = &http.Client{Transport: &http.Transport{}}

func post(ctx context.Context, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := receiverClient.Do(request)
	if err != nil {
		return err
	}
	reply.Body.Close()
	if reply.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s answers %s", url, reply.Status)
	}
	return nil
}

// updatePlain is the cron that was there before, as everybody writes it. In
// four processes there are four of them.
func (s *server) updatePlain(ctx context.Context) error {
	for tick := time.Now().Truncate(time.Second); ; {
		tick = tick.Add(time.Second)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(tick)):
		}
		if err := s.send(ctx, tick); err != nil && ctx.Err() == nil {
			log.Print(err)
		}
	}
}
