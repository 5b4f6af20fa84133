// Command show answers what package time thinks, a line each.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	start := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "now":
			fmt.Println(time.Now().UnixNano())
		case "since":
			fmt.Println(int64(time.Since(start)), int64(time.Now().Sub(start)))
		case "timers": // a minute, by each of them
			before := time.Now()
			<-time.After(time.Minute)
			timer := time.Since(before)
			before = time.Now()
			ticker := time.NewTicker(30 * time.Second)
			<-ticker.C
			<-ticker.C
			fmt.Println(int64(timer), int64(time.Since(before)))
		}
	}
}
