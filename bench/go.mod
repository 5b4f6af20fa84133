// Schedulers that cronce is measured beside live here, so that they never
// enter cronce's own go.mod.
module github.com/cronce/cronce/bench

go 1.26

require (
	github.com/cronce/cronce v0.0.0
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/go-sql-driver/mysql v1.10.1
	github.com/robfig/cron/v3 v3.0.1
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
)

replace github.com/cronce/cronce => ../
