# optimizer-dtype.sh MODEL DTYPE: the state's hash after some steps, however
# many ranks there are and whoever keeps what.
set -e
model=$1
dtype=$2
rm -f hashes
train() {
  ./train --data t.bin --steps 4 --clip-grad-norm 0 --save saved-$$ "$@" |
    sed -n 's/^saved .*step-00000004.*state \([0-9a-f]*\).*/\1/p' >> hashes
  rm -rf saved-$$
}
for strategy in full_shard shard_grad_op shard_opt no_shard hybrid_shard; do
  shardonnx compile "$model" --batch=1 --optimizer-dtype=$dtype \
    --strategy=$strategy -o train
  for ranks in 1 2 4; do
    train --nproc $ranks
  done
done
train --nproc 4 --replicas 2
train --nproc 2 --offload optimizer --offload-dir .
cat hashes
test $(wc -l < hashes) = 17
test $(sort -u hashes | wc -l) = 1
