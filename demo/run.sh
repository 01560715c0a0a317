#!/usr/bin/env bash
# Shows what Holdfast does: backs up a real tree over TLS, changes it, backs it up again, restores
# both states, and compares the bytes and attributes of both with the originals.
# usage: demo/run.sh [DIR]
#
# DIR is only read; a copy of it is backed up. The default is /usr/include, or /usr/share if that is
# empty. The program is the release build, unless HOLDFAST_BIN names another program. All files of
# the demo lie in one folder in TMPDIR, which is removed at the end in any case. Root is not needed.
set -euo pipefail
export LC_ALL=C
unset CDPATH

# Number of times that the data lies in that folder: copy, pool, two restores, and a reserve.
COPIES=5
SERVER_START_SECS=30
# Number of files that are changed in each way.
PICKED=4
DIFFERENCES_SHOWN=20

scratch=
server=
began=$SECONDS

fail() {
  echo "demo: $*" >&2
  exit 1
}

clean_up() {
  local code=$?
  trap - EXIT INT TERM
  if [ -n "$server" ]; then
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  if [ -n "$scratch" ]; then
    cd /
    # Copied folders may be read-only for their owner.
    chmod -R u+rwx -- "$scratch" 2>/dev/null || true
    rm -rf -- "$scratch" || echo "demo: cannot remove $scratch; remove it by hand" >&2
  fi
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

title() {
  printf '\n== %s\n' "$*"
}

# Shows a command as a person would type it, then runs it.
run() {
  local words
  printf -v words ' %q' "$@"
  printf '\n$%s\n' "$words"
  "$@"
}

holdfast() {
  "$program" "$@"
}

# Runs a command of the client. Its exit code may be 4 (some objects failed) or 8 (warnings).
run_client() {
  local code=0
  run holdfast "$@" || code=$?
  case $code in
    0) ;;
    4) echo "(exit code 4: the failed objects are named above; the demo goes on without them)" ;;
    8) echo "(exit code 8: done, with the warnings above)" ;;
    *) fail "'holdfast $1' ended with exit code $code" ;;
  esac
}

find_program() {
  local target=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/holdfast/target}
  program=${HOLDFAST_BIN:-$target/release/holdfast}
  [ -x "$program" ] || fail "the program $program does not exist; run 'make build'"
  program=$(readlink -f -- "$program")
}

# Sets `dir` to the path of the tree, with symbolic links resolved.
find_tree() {
  local given=${1:-}
  if [ -z "$given" ]; then
    given=/usr/include
    [ -n "$(ls -A -- "$given" 2>/dev/null)" ] || given=/usr/share
  fi
  [ -d "$given" ] || fail "the directory $given does not exist"
  dir=$(cd -- "$given" 2>/dev/null && pwd -P) || fail "the directory $given cannot be entered"
}

make_scratch() {
  local needed free
  scratch=$(mktemp -d -- "${TMPDIR:-/tmp}/holdfast-demo.XXXXXX") || fail "no temporary folder"
  scratch=$(cd -- "$scratch" && pwd -P)
  case $scratch/ in
    "${dir%/}"/*) fail "$dir contains the temporary folder; name another folder in TMPDIR" ;;
  esac
  needed=$(du -skx -- "$dir" 2>/dev/null | cut -f1 || true)
  needed=$((${needed:-0} * COPIES / 1024 + 1))
  free=$(df -Pk -- "$scratch" | awk 'NR == 2 { print int($4 / 1024) }')
  [ "$needed" -lt "$free" ] ||
    fail "$needed MiB are needed in ${scratch%/*}, but $free MiB are free; choose a smaller DIR"
}

# Copies the tree, so that the original stays unchanged. Objects that this user cannot read are left
# out.
copy_tree() {
  local code=0 count
  run cp -a --one-file-system -- "$dir" tree 2>"$scratch/cp.err" || code=$?
  [ -d tree ] || fail "cannot copy $dir: $(head -n 1 "$scratch/cp.err")"
  if [ "$code" -ne 0 ]; then
    count=$(wc -l <"$scratch/cp.err")
    echo "(some objects are left out, because this user cannot copy them; errors of cp: $count;"
    echo " the first: $(head -n 1 "$scratch/cp.err"))"
  fi
}

# Describes the tree $1 in files of the folder $2: attributes, contents, extended attributes.
# Objects that cannot be read are left out, because they cannot have been backed up, and so are
# sockets.
describe() {
  local tree=$1 list
  mkdir -- "$2"
  list=$(cd -- "$2" && pwd -P)
  (
    cd -- "$tree"
    skip=( '(' -type f -o -type d ')' ! -readable -prune -o -type d ! -executable -prune
      -o -type s )
    find . "${skip[@]}" -o -type d -printf '%P: %y %m %U:%G %T@\0' \
      -o -printf '%P: %y %m %U:%G %T@ %s bytes, %n links %l\0' | sort -z >"$list/attributes"
    find . "${skip[@]}" -o -type f -print0 | sort -z | xargs -0r sha256sum -z -- >"$list/contents"
    if command -v getfattr >/dev/null; then
      find . "${skip[@]}" -o -print0 | sort -z |
        xargs -0r getfattr -h -d -e hex -m "$xattrs" -- >"$list/xattrs" 2>/dev/null || true
    fi
  )
}

# Compares the list $3 of the descriptions $1 and $2. $4 is the name of the list for a person.
same() {
  if cmp -s -- "$1/$3" "$2/$3"; then
    echo "  $4: identical"
    return
  fi
  echo "  $4: DIFFERENT (< original, > restored)"
  diff -a <(tr '\0' '\n' <"$1/$3") <(tr '\0' '\n' <"$2/$3") | head -n "$DIFFERENCES_SHOWN" || true
  different=1
}

# Compares the tree $2 with the description $1 of the original.
compare() {
  local saved=$1 restored=$2 objects files bytes count
  describe "$restored" "$saved.restored"
  objects=$(tr -cd '\0' <"$saved/attributes" | wc -c)
  files=$(tr -cd '\0' <"$saved/contents" | wc -c)
  bytes=$(du -sk --apparent-size -- "$restored" | cut -f1)
  echo "Comparing $restored with the description of the tree from the time of its backup:"
  [ "$objects" -gt 0 ] || fail "there are no objects to compare"
  same "$saved" "$saved.restored" attributes \
    "type, mode, owner, group, mtime to the nanosecond, size and links (objects: $objects)"
  same "$saved" "$saved.restored" contents "SHA-256 (files: $files, $(((bytes + 1023) / 1024)) MiB)"
  if [ -e "$saved/xattrs" ]; then
    count=$(grep -c '^# file: ' "$saved/xattrs" || true)
    same "$saved" "$saved.restored" xattrs "extended attributes and ACLs (objects: $count)"
  else
    echo "  extended attributes: not compared, because getfattr (package attr) is not installed"
  fi
}

start_server() {
  local tries=$((SERVER_START_SECS * 10))
  run holdfast server init server --listen 127.0.0.1:0
  printf '\n$ holdfast server run server &\n'
  "$program" server run server >server.out 2>server.log &
  server=$!
  until grep -q 'ready on' server.out; do
    kill -0 "$server" 2>/dev/null || fail "the server ended: $(tail -n 1 server.log)"
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "the server is not ready after $SERVER_START_SECS s"
    sleep 0.1
  done
  cat server.out
  address=$(sed -n 's/.*ready on \(.*[0-9]\)\.*$/\1/p' server.out)
}

enrol_here() {
  local token
  run holdfast admin --server server node add demo | tee node.out
  token=$(sed -n 's/.*--token //p' node.out)
  [ -n "$token" ] || fail "'holdfast admin node add' printed no token"
  printf '\n$ export HOLDFAST_HOME=%q\n' "$PWD/home"
  export HOLDFAST_HOME=$PWD/home
  run holdfast enroll "$address" --token "$token"
}

# Fills the array `picked` with some files that this user may change, from all over the tree.
pick() {
  local offset=$1 step index
  picked=()
  step=$((${#candidates[@]} / PICKED))
  [ "$step" -ge 5 ] || return 0
  for ((index = offset; index < ${#candidates[@]}; index += step)); do
    picked+=("${candidates[index]}")
  done
}

append_line() {
  printf '\n$ echo changed >> %q\n' "$1"
  echo changed >>"$1"
}

add_files() {
  local name=$'tree/demo-added/a name\nof two lines'
  [ -w tree ] || run chmod u+w tree
  run mkdir tree/demo-added
  printf '\n$ echo new > %q\n' "$name"
  echo new >"$name"
  run ln "$name" tree/demo-added/hard-link
  run ln -s ../nowhere tree/demo-added/symbolic-link
  run truncate -s 64M tree/demo-added/sparse
  run mkfifo -m 600 tree/demo-added/fifo
  if command -v setfattr >/dev/null; then
    run setfattr -n user.demo -v kept tree/demo-added/sparse 2>/dev/null ||
      echo "(this file system does not support user attributes)"
  fi
  run touch -d '1999-12-31 23:59:59.123456789' tree/demo-added/hard-link
}

remove_folder() {
  local folder
  # The folder must have few objects, and this user must be able to write to its parent.
  while IFS= read -r -d '' folder; do
    if [ -w "${folder%/*}" ] && [ "$(find "$folder" | head -n 51 | wc -l)" -le 50 ]; then
      run rm -r -- "$folder"
      return
    fi
  done < <(find tree -mindepth 1 -type d -readable -writable -executable ! -path 'tree/demo-added*' \
    ! -empty -print0 | sort -zr)
}

change_tree() {
  local file
  mapfile -d '' -t candidates < <(
    find tree -type f -readable -writable -size -1024k -print0 | sort -z
  )
  add_files
  pick 0
  for file in "${picked[@]}"; do append_line "$file"; done
  pick 1
  for file in "${picked[@]}"; do run chmod 600 "$file"; done
  pick 2
  for file in "${picked[@]}"; do run touch -d 2001-02-03 "$file"; done
  pick 3
  for file in "${picked[@]}"; do
    [ ! -w "${file%/*}" ] || run rm -f -- "$file"
  done
  # In a small tree, this folder might be most of the tree.
  [ "${#candidates[@]}" -lt 200 ] || remove_folder
}

stop_server() {
  local code=0
  run kill -TERM "$server"
  wait "$server" || code=$?
  server=
  [ "$code" -eq 0 ] || fail "the server ended with exit code $code: $(tail -n 1 server.log)"
  echo "The server has stopped."
}

main() {
  [ $# -le 1 ] || fail "usage: demo/run.sh [DIR]"
  find_program
  find_tree "${1:-}"
  make_scratch
  # Only root can read and set all kinds of extended attributes.
  xattrs='^user\.|^system\.posix_acl'
  [ "$(id -u)" -ne 0 ] || xattrs=-
  different=0

  title "A copy of $dir, to be backed up and changed"
  run cd "$scratch"
  copy_tree
  describe tree saved-1

  title "A server, over TLS, on a free port of this machine"
  start_server
  title "This machine becomes its node"
  enrol_here

  title "The first backup"
  run_client backup tree
  between=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  printf '\n$ date -u +%%Y-%%m-%%dT%%H:%%M:%%SZ\n%s\n' "$between"
  run sleep 1

  title "Some files are changed, added and removed"
  change_tree
  describe tree saved-2
  title "The second backup sends only the changes"
  run_client backup tree
  run_client list tree/demo-added

  title "Both states are restored"
  run_client restore tree --to first --at "$between"
  run_client restore tree --to second
  title "Do they equal the originals?"
  compare saved-1 first/tree
  compare saved-2 second/tree

  title "All stored data is read back and checked"
  run_client verify --data
  title "The end"
  stop_server
  [ "$different" -eq 0 ] || fail "a restored tree differs from its original; see above"
  printf '\nBoth restored states are identical to their originals. The demo took %s s.\n' \
    "$((SECONDS - began))"
}

main "$@"
