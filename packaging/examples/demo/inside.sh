# Runs inside the fence: four things to try. Each says what happened; the last line counts what went wrong.
# usage: inside.sh PORT DIRECTORY
port=$1 outside=$2
wrong=0

echo "-- an allowed name:"
curl -sS --max-time 10 "http://allowed.test:$port/hello.txt" || wrong=$((wrong + 1))

echo "-- a name that is not allowed, and why:"
answer=$(curl -sS --max-time 10 -w '\nHTTP status %{http_code}' "http://evil.test:$port/hello.txt")
echo "$answer"
case $answer in *denied-by-rule*"HTTP status 403") ;; *) wrong=$((wrong + 1)) ;; esac

echo "-- writing inside the working directory, then outside:"
echo text >inside.txt && echo "inside.txt: written" || wrong=$((wrong + 1))
if (echo text >"$outside/outside.txt") 2>&1; then
    echo "outside.txt: written, which must not happen"
    wrong=$((wrong + 1))
fi

echo "-- the network without the gateway:"
if curl -sS --max-time 10 --noproxy '*' "http://127.0.0.2:$port/hello.txt" 2>&1; then
    echo "reached, which must not happen"
    wrong=$((wrong + 1))
fi
exit "$wrong"
