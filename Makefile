# The commands of a contributor; "make" alone explains them.

# The build folder is outside the tree, so that several work trees share it.
CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/holdfast/target
export CARGO_TARGET_DIR
# rustup puts cargo into this folder, which not every shell searches.
export PATH := $(PATH):$(HOME)/.cargo/bin

# Tests that choose the stores of their servers themselves, or that do not depend on the stores.
IN_FOLDERS := baseline:: buckets:: chaos:: database_faults:: drives:: image:: journal:: mount:: network:: object_lock:: power:: scale_out:: soak:: space:: tape:: tsm_orders:: volumes::

# Number of tests of e2e that run at the same time. Most of them wait: for a clock, a disk, a server.
E2E_THREADS ?= $(shell echo $$((2 * $$(nproc) + 1)))

# Prints the path of the tests of e2e as they were built with the workspace: "it" are those of the
# program, "e2e" those of the harness. "cargo test -p e2e" builds most crates once more, with other
# features. Without a path, the words that follow this command are no program, and make fails.
TESTS_OF_E2E = cargo test --workspace --locked --no-run --message-format=json 2> /dev/null | \
	sed -n '/"package_id":"[^"]*\/crates\/e2e\#/{s/.*"name":"$(1)".*"executable":"\([^"]*\)".*/\1/p}'
RUN_E2E = cd crates/e2e && $$($(call TESTS_OF_E2E,it)) --test-threads $(E2E_THREADS)

PREFIX ?= /usr/local
PROGRAM := $(CARGO_TARGET_DIR)/release/holdfast
PACKAGE_FOLDER := $(CARGO_TARGET_DIR)/package

.PHONY: help test without-page test-long chaos power-test journal-test nfs-test image-test fleet-test vm-test soak fuzz demo build install package bench bench-tree rust packages-build packages-test packages-package garage api-tools

help:
	@echo "make test                 check format, lints and tidiness, run all tests"
	@echo "make without-page         check the program without the page, which needs no Node"
	@echo "make test-long            the suites that take longer: chaos, and thousands of random histories"
	@echo "make chaos                kill servers for ten minutes while twenty nodes back up"
	@echo "make power-test           cut the power of a server's disk at hundreds of moments, on ext4, xfs and btrfs"
	@echo "make journal-test         random changes on ext4, xfs and btrfs, backed up by the journal and compared with walks"
	@echo "make nfs-test             use stubs over NFS, in virtual machines with an old and a new kernel"
	@echo "make image-test           images of disks that only a virtual machine has, and of a running machine"
	@echo "make fleet-test           fifty agents work by schedule for ten minutes, kills included"
	@echo "make vm-test              install, upgrade, use, remove and purge the packages in a virtual machine"
	@echo "make soak                 a thousand nodes work with one server for an hour, kills included"
	@echo "make fuzz                 run every fuzz target for an hour, or for HOLDFAST_FUZZ_SECS each"
	@echo "make demo [DIR=...]       back up a real tree, change it, restore it, compare"
	@echo "make build                build the program for use"
	@echo "make install [PREFIX=...] build the program and install it below PREFIX ($(PREFIX))"
	@echo "make package              build packages for Debian in $(PACKAGE_FOLDER)"
	@echo "make bench DIR=...        time backup and restore of the tree DIR"
	@echo "The build output is in $(CARGO_TARGET_DIR)."

# What fails soonest comes first. Without e2e the other crates have the same features, so they are
# not built again.
test: rust packages-test garage api-tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo build --workspace --locked
	cargo test --workspace --locked --no-run
	cargo test --workspace --exclude e2e --locked
	cd crates/e2e && $$($(call TESTS_OF_E2E,e2e)) --quiet
	$(RUN_E2E)
	export HOLDFAST_TEST_STORES=both; $(RUN_E2E) $(IN_FOLDERS:%=--skip %)

# After "make test", only the crates that know the page are checked again: "cargo check -p holdfast"
# would check most crates, with other features. The crate of the page, which needs Node, is left out.
without-page: rust
	cargo clippy --workspace --exclude web --all-targets --no-default-features --locked -- -D warnings

# These suites run many more histories of a server, of expiration, of kills and of power cuts than
# "make test".
test-long: export HOLDFAST_SEEDS ?= 300
test-long: export HOLDFAST_CASES ?= 2000
test-long: export HOLDFAST_KILLS ?= 200
test-long: export HOLDFAST_HISTORIES ?= 10000
test-long: chaos without-page
	cargo test --locked -p store -p catalog

# Values from the environment take precedence. HOLDFAST_CHAOS_SEED repeats the same deaths.
chaos: export HOLDFAST_CHAOS_SECS ?= 600
chaos: export HOLDFAST_CHAOS_NODES ?= 20
chaos: rust packages-test garage
	cargo build --locked -p holdfast
	cargo test --locked -p e2e --test it -- --nocapture chaos::

# HOLDFAST_POWER_CUTS is the number of power cuts for each file system.
power-test: export HOLDFAST_POWER_CUTS ?= 150
power-test: rust packages-test
	cargo build --locked -p holdfast
	cargo test --locked -p e2e --test it -- --nocapture power::

# HOLDFAST_JOURNAL_ROUNDS is the number of backups on each file system, and HOLDFAST_JOURNAL_SEED
# repeats the same changes. On a machine that can test none of the file systems, or that has no
# stress-ng, this fails.
journal-test: export HOLDFAST_JOURNAL_ROUNDS ?= 200
journal-test: rust packages-test
	cargo build --locked -p holdfast
	cargo test --locked -p e2e --test it -- --nocapture journal::

# Stubs used over NFS, in virtual machines with an old and a new kernel. HOLDFAST_VM_RELEASES names
# the releases of Debian, and NFS_TESTS chooses tests by parts of their names.
nfs-test: export HOLDFAST_VM_RELEASES ?= bookworm trixie-backports
nfs-test: rust packages-build
	cargo build --locked -p holdfast
	./.ci/vm/nfs "$(CARGO_TARGET_DIR)/debug/holdfast" $(NFS_TESTS)

# Images of disks in a virtual machine: snapshots of LVM, tables of partitions, network block devices,
# bad sectors, and disks in use. The disk of a running machine is imaged, restored, and booted.
# IMAGE_TESTS chooses tests by parts of their names. The emulated machine needs a quick program.
image-test: build
	./.ci/vm/images "$(PROGRAM)" $(IMAGE_TESTS)

# Nodes with agents, which run a command and back up each minute, while the agents and the server are
# killed at random. HOLDFAST_FLEET_SEED repeats the same deaths.
fleet-test: export HOLDFAST_FLEET_NODES ?= 50
fleet-test: export HOLDFAST_FLEET_SECS ?= 600
fleet-test: rust packages-test
	cargo build --locked -p holdfast
	cargo test --locked -p e2e --test it -- --nocapture schedules::deaths::

# The packages on a Debian system with systemd: their upgrade from the version before, their units,
# a reboot, snapshots of LVM, space management, Ansible, their removal. The packages of the version
# before are built first: their commit may be missing in this clone.
vm-test: rust packages-build packages-package
	./.ci/before
	$(MAKE) package
	./.ci/vm/packages "$$(./.ci/before)" "$(PACKAGE_FOLDER)"

# HOLDFAST_SOAK_NODES is the number of nodes.
soak: export HOLDFAST_SOAK_SECS ?= 3600
soak: rust packages-test
	cargo build --locked -p holdfast
	cargo test --locked -p e2e --test it -- --nocapture soak::

# FUZZ names the targets; without it, all targets run.
fuzz: rust packages-test
	./.ci/fuzz $(FUZZ)

demo: build
	./demo/run.sh $(if $(DIR),"$(DIR)")

build: rust packages-build
	cargo build --release --locked -p holdfast

install: build
	install -D -m 755 "$(PROGRAM)" "$(DESTDIR)$(PREFIX)/bin/holdfast"

package: build packages-package
	./packaging/build "$(PROGRAM)" "$(PACKAGE_FOLDER)"

bench: bench-tree build
	cargo run --release --locked -p bench -- "$(DIR)" $(ARGS)

bench-tree:
	@[ -n "$(DIR)" ] || { echo "make bench: name the tree, as in DIR=/usr/share" >&2; exit 2; }

rust:
	@command -v cargo >/dev/null || { echo "make: cargo is missing: install Rust 1.95 or newer" >&2; exit 1; }

packages-build:
	@./.ci/packages build

packages-test:
	@./.ci/packages test

packages-package:
	@./.ci/packages package

garage:
	@./.ci/garage

# schemathesis, and a generator of clients, for the tests of the REST API by its own document.
api-tools:
	@./.ci/api-tools
