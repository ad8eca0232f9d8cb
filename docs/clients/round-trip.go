// SERVICE=https://… KEY=sp_… go run round-trip.go <file>
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// call repeats a request until its status is final: 408, 409 idempotency_running, 429, 5xx and no response are not.
func call(method, path string, body []byte, headers map[string]string) []byte {
	for attempt := 1; ; attempt++ {
		request, _ := http.NewRequest(method, os.Getenv("SERVICE")+path, bytes.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+os.Getenv("KEY"))
		for name, value := range headers {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		seconds := attempt
		if err == nil {
			var content []byte
			content, err = io.ReadAll(response.Body)
			response.Body.Close()
			if err == nil && response.StatusCode < 300 {
				return content
			}
			reason, status := string(content), response.StatusCode
			if status >= 400 && status < 500 && status != 408 && status != 429 && !strings.Contains(reason, `"idempotency_running"`) {
				log.Fatal(status, " ", reason)
			}
			if after, none := strconv.Atoi(response.Header.Get("Retry-After")); none == nil {
				seconds = after
			}
		}
		if attempt == 6 {
			log.Fatal("no success after 6 attempts: ", response, err)
		}
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

func main() {
	content, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var stored struct{ FileID string }
	json.Unmarshal(call("POST", "/v1/storage/encrypted", content, map[string]string{
		"Content-Disposition": "attachment; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(filepath.Base(os.Args[1])), "+", "%20"),
		"Content-Type":        "application/octet-stream",
		"Idempotency-Key":     rand.Text(),
	}), &stored)
	path := "/v1/storage/" + stored.FileID
	if !bytes.Equal(call("GET", path+"/content", nil, nil), content) {
		log.Fatal("the file reads differently")
	}
	fmt.Println(string(call("DELETE", path, nil, nil)))
}
