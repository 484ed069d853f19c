# Pipes, subshells, command substitution and the usual tools.
set -e
mkdir -p data/deep
for name in pear apple fig; do
    (cd data && echo "$name ripe" > "$name.txt")
done
echo kiwi > data/deep/kiwi.txt
ls data | sort -r
find data -name '*.txt' | sort | while read -r path; do
    echo "$path: $(wc -c < "$path")"
done
grep -l ripe data/*.txt | sort | tr a-z A-Z
(exit 3) || echo "subshell said $?"
cat <(echo process) <(echo substitution)
{ sleep 0 & wait $!; } && echo waited
exec ls data/deep
