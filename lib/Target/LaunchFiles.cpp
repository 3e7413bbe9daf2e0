//===- LaunchFiles.cpp - How launchers start a program --------------------------===//

#include "plumb/Target/LaunchFiles.h"

#include <algorithm>
#include <cctype>

namespace plumb {

/// Letters, digits and dashes, as Kubernetes wants names, and short enough for the names of pods, which it
/// makes of this one and which have at most 63 letters.
static std::string toLabel(const std::string &text) {
  std::string label;
  for (char c : text)
    label += std::isalnum(static_cast<unsigned char>(c))
                 ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                 : '-';
  if (label.empty() || !std::isalpha(static_cast<unsigned char>(label[0])))
    label = "plumb-" + label;
  constexpr size_t kMost = 40;
  label.resize(std::min(label.size(), kMost));
  while (label.back() == '-')
    label.pop_back();
  return label;
}

static std::string replaceAll(std::string text,
                              const std::vector<std::pair<std::string, std::string>> &values) {
  for (const auto &[key, value] : values)
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + value.size()))
      text.replace(at, key.size(), value);
  return text;
}

static constexpr const char *kRun = R"text(#!/usr/bin/env bash
# Starts the @RANKS@ ranks of @MODEL@; arguments go to the program.
#   run.sh torchrun ARGUMENTS…   once on each host, with MASTER_ADDR the first one and NODE_RANK the number of this one
#   run.sh mpirun ARGUMENTS…     once, with the hosts in `hostfile` (or exactly placed: RANKFILE=rankfile)
set -euo pipefail
cd "$(dirname "$0")"
launcher=${1:?torchrun or mpirun}
shift
case $launcher in
torchrun)
  exec python3 -m torch.distributed.run --no-python --nnodes @HOSTS@ --nproc-per-node @PER_HOST@ \
    --node-rank "${NODE_RANK:-0}" --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "${MASTER_PORT:-29500}" \
    ./program "$@"
  ;;
mpirun)
  if [[ -n ${RANKFILE:-} ]]; then placement=(--rankfile "$RANKFILE"); else placement=(--hostfile hostfile); fi
  exec mpirun -np @RANKS@ "${placement[@]}" --bind-to none --mca odls_base_sigkill_timeout 5 \
    -x MASTER_ADDR -x MASTER_PORT ./program "$@"
  ;;
*)
  echo "unknown launcher '$launcher'; use torchrun or mpirun" >&2
  exit 2
  ;;
esac
)text";

static constexpr const char *kSlurm = R"text(#!/bin/bash
# Starts the @RANKS@ ranks of @MODEL@: sbatch job.sbatch ARGUMENTS…
#SBATCH --job-name=@LABEL@
#SBATCH --nodes=@HOSTS@
#SBATCH --ntasks=@RANKS@
#SBATCH --ntasks-per-node=@PER_HOST@
#SBATCH --gpus-per-task=1
# SIGTERM a minute before the time is over: a run with --checkpoint writes one and ends in order.
#SBATCH --signal=TERM@60
set -euo pipefail
# The first line, cut off without `head`: it would end scontrol with SIGPIPE, and with it, sometimes, this job.
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_ADDR=${hosts%%$'\n'*}
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
exec srun --kill-on-bad-exit=1 ./program "$@"
)text";

static constexpr const char *kJobSet =
    R"text(# The @RANKS@ ranks of @MODEL@ as a JobSet. Set the image, which holds this folder under /plumb, and the arguments.
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: "@LABEL@"
spec:
  failurePolicy:
    maxRestarts: 0
  replicatedJobs:
  - name: ranks
    replicas: 1
    template:
      spec:
        parallelism: @RANKS@
        completions: @RANKS@
        completionMode: Indexed
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: rank
              image: IMAGE
              command: ["/plumb/program"]
              args: []
              env:
              - name: RANK
                valueFrom:
                  fieldRef:
                    fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
              - name: WORLD_SIZE
                value: "@RANKS@"
              - name: LOCAL_RANK
                value: "0"
              - name: MASTER_ADDR
                value: "@LABEL@-ranks-0-0.@LABEL@"
              - name: MASTER_PORT
                value: "29500"
              resources:
                limits:
                  nvidia.com/gpu: 1
)text";

std::vector<LaunchFile> getLaunchFiles(const std::string &model, int64_t ranks, int64_t perHost) {
  perHost = std::min(perHost, ranks);
  int64_t hosts = (ranks + perHost - 1) / perHost;
  // It goes into comments, each of one line.
  std::string title = model;
  std::ranges::replace_if(title, [](unsigned char c) { return std::iscntrl(c); }, ' ');
  auto fill = [&](const char *text) {
    return replaceAll(text, {{"@RANKS@", std::to_string(ranks)},
                             {"@HOSTS@", std::to_string(hosts)},
                             {"@PER_HOST@", std::to_string(perHost)},
                             {"@LABEL@", toLabel(model)},
                             {"@MODEL@", title}});
  };
  std::string hostfile, rankfile;
  for (int64_t host = 0; host < hosts; ++host)
    hostfile += "host" + std::to_string(host) + " slots=" + std::to_string(perHost) + "\n";
  for (int64_t rank = 0; rank < ranks; ++rank)
    rankfile += "rank " + std::to_string(rank) + "=host" + std::to_string(rank / perHost) +
                " slot=" + std::to_string(rank % perHost) + "\n";
  return {{"run.sh", fill(kRun)},
          {"hostfile", hostfile},
          {"rankfile", rankfile},
          {"job.sbatch", fill(kSlurm)},
          {"jobset.yaml", fill(kJobSet)}};
}

} // namespace plumb
