# The commands of this repository. Each installs what it needs and says so first; none touches a server that is there already.
.PHONY: run stop psql example adopt-check test test-long image-test lint bench bench-report bench-check clean help

help: ## Lists the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

run: ## Builds, starts a private PostgreSQL with the extension, and shows the tour
	@scripts/run

stop: ## Stops the server that make run started; its data stays
	@scripts/cluster stop run

psql: ## Opens psql on the tour's database
	@scripts/psql

example: ## Starts a small shop in front of a private PostgreSQL, until Ctrl-C, and prints what to open
	@scripts/example

adopt-check: ## Says what adoption would do to the database URL=postgres://..., and changes nothing
	@scripts/adopt-check "$(URL)"

test: ## Runs every check and every test
	@scripts/test

test-long: ## Runs the tests that take minutes and gigabytes, and prints what they measured
	@scripts/test-long

image-test: ## Builds the database image, and tests it run, killed, stopped, dumped and upgraded
	@scripts/image-test

lint: ## Formatting and clippy only
	@scripts/test lint

bench: ## Measures everything (an hour and a half), and writes it into bench/ and docs/benchmarks.md
	@bench/run --write
	@bench/instructions --write
	@bench/fingerprint
	@bench/report

bench-report: ## Makes docs/benchmarks.md and its plots of what make bench measured last
	@bench/report

bench-check: ## Counts only what has a bar, and fails over it
	@bench/instructions --check

clean: ## Stops the server and deletes all that was built or made
	@scripts/cluster drop run
	@scripts/cluster drop shop
	@scripts/image-test --clean
	rm -rf .state target
