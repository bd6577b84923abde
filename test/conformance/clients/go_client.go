// A partner on amqp091-go, which reconnects when the test says so.
package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var slug = os.Getenv("SLUG")
var routingKey = slug + ".command.device"

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func connect(url string) (*amqp.Connection, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("CA_FILE"))))
	return amqp.DialTLS(url, &tls.Config{RootCAs: roots})
}

func uuid() string {
	b := make([]byte, 16)
	must(rand.Read(b))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// A command to a battery in its signed envelope. Returns its correlation id and the text to publish.
func signedCommand() (string, []byte) {
	payload := `{"commands":[{"deviceId":"BESS-1","assetType":"BESS","command":"BESS_CHARGE","params":{"powerKw":5}}]}`
	id, messageID, siteID := uuid(), uuid(), os.Getenv("SITE_ID")
	timestamp := time.Now().UTC().Format(time.RFC3339)
	signed := strings.Join([]string{"1.1", messageID, id, timestamp, "go", siteID, routingKey, payload}, "|")
	mac := hmac.New(sha256.New, []byte(os.Getenv("SIGNING_KEY")))
	mac.Write([]byte(signed))
	return id, must(json.Marshal(map[string]any{
		"version": "1.1", "messageId": messageID, "correlationId": id, "timestamp": timestamp, "source": "go",
		"siteId": siteID, "payload": json.RawMessage(payload), "signature": fmt.Sprintf("%x", mac.Sum(nil)),
	}))
}

func publish(channel *amqp.Channel, key string, body []byte) *amqp.DeferredConfirmation {
	message := amqp.Publishing{ContentType: "application/json", Body: body}
	return must(channel.PublishWithDeferredConfirmWithContext(context.Background(), "vcp", key, false, false, message))
}

func main() {
	if _, err := connect(os.Getenv("WRONG_URL")); err != nil {
		fmt.Println("refused", err)
	}
	lines := bufio.NewScanner(os.Stdin)
	for life := 1; life <= 3; life++ {
		lines.Scan() // the broker is there
		connection := must(connect(os.Getenv("AMQP_URL")))
		lost := connection.NotifyClose(make(chan *amqp.Error, 1))
		fmt.Println("connected")
		channel := must(connection.Channel())
		if err := channel.Confirm(false); err != nil {
			panic(err)
		}
		id, body := signedCommand()
		if !publish(channel, routingKey, body).Wait() {
			panic("not confirmed")
		}
		fmt.Println("confirmed", id)

		events := must(channel.Consume("vcp."+slug+".event.status", "", false, false, false, false, nil))
		for delivery := range events {
			delivery.Ack(false)
			var event struct {
				CorrelationID string                  `json:"correlationId"`
				Payload       struct{ Status string } `json:"payload"`
			}
			if err := json.Unmarshal(delivery.Body, &event); err != nil {
				panic(err)
			}
			if event.CorrelationID == id {
				fmt.Println("acked", id, event.Payload.Status)
				break
			}
		}

		if life == 1 {
			publish(channel, routingKey, []byte("no envelope")).Wait()
			message, _, err := channel.Get("vcp."+slug+".dead-letter", true)
			fmt.Println("got", string(must(message, err).Body))
			other := must(connection.Channel())
			denied := other.NotifyClose(make(chan *amqp.Error, 1))
			must(true, other.PublishWithContext(context.Background(), "vcp", "other.command.device", false, false,
				amqp.Publishing{Body: body}))
			fmt.Println("denied", <-denied)
		}
		if life < 3 {
			fmt.Println("lost", <-lost)
		} else {
			must(true, connection.Close())
		}
	}
	fmt.Println("bye")
}
