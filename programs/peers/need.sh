# shellcheck shell=bash
# For the `setup` of a peer: `need TOOL PACKAGE…` makes sure of a command or an absolute path. Where it is missing, root
# installs the packages by apt; whoever cannot exits 69. Standard output stays free for the name and version of the system.

has() {
    case $1 in
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

need() {
    local tool=$1
    shift
    if ! has "$tool" && [ "$(id -u)" = 0 ] && has apt-get; then
        # The lists of a fresh machine are empty or old.
        install "$@" || { apt-get update >&2 && install "$@"; } || true
    fi
    if ! has "$tool"; then
        echo "$tool is missing (apt: $*) and cannot be installed" >&2
        exit 69
    fi
}
