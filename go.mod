module github.com/cronce/cronce

go 1.26
