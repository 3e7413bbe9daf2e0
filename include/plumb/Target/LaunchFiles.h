//===- LaunchFiles.h - How launchers start a program ------------*- C++ -*-===//

#ifndef PLUMB_TARGET_LAUNCHFILES_H
#define PLUMB_TARGET_LAUNCHFILES_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/// A file name and its text.
using LaunchFile = std::pair<std::string, std::string>;

/// What starts all ranks of a program with torchrun or mpirun (`run.sh`, with `hostfile` and `rankfile` for
/// mpirun), with Slurm (`job.sbatch`) or on Kubernetes (`jobset.yaml`). One process per rank; hosts have
/// `perHost` devices and are to be named in the files.
std::vector<LaunchFile> getLaunchFiles(const std::string &model, int64_t ranks, int64_t perHost = 8);

} // namespace plumb

#endif // PLUMB_TARGET_LAUNCHFILES_H
