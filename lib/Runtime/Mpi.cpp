//===- Mpi.cpp - The collective provider `mpi` ----------------------------------===//

#include "plumb/Runtime/MpiWorld.h"
#include "plumb/Runtime/Process.h"
#include "plumb/Runtime/Run.h"

#define OMPI_SKIP_MPICXX
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace plumb {
namespace {

class MpiProvider : public Provider {
public:
  MpiProvider(const Program &program, const Place &place, const Options &options,
              RendezvousClient &rendezvous)
      : program(program), world(place.rank, environmentNumber("PLUMB_SEED", 1), options.timeout,
                                [&rendezvous] { rendezvous.checkOthers(); }) {
    world.device().makeCurrent();
  }

  ncclComm_t connect(int communicator, const std::vector<int> &members, int self) override {
    return world.connect(communicator, program.communicators[static_cast<std::size_t>(communicator)].name,
                         members, self);
  }
  void disconnect(ncclComm_t comm, bool) override { (void)ncclCommDestroy(comm); }
  void synchronize(std::span<const cudaStream_t>, const std::function<void()> &meanwhile) override {
    // The device works while this thread waits for it.
    meanwhile();
    PLUMB_CUDA(cudaDeviceSynchronize());
  }
  void beginStep(std::int64_t step) override { host::beginStep(step); }
  const Outcome *explain() const override { return world.failed() ? &world.result() : nullptr; }

private:
  const Program &program;
  host::MpiWorld world;
};

Place findPlace() {
  Place place;
  MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place.size);
  return place;
}

/// Rank 0 listens on any port; MPI tells the others which, and where: on this machine if they all are.
void announce(Place &place) {
  char name[256] = {};
  (void)::gethostname(name, sizeof name - 1);
  MPI_Comm here;
  int neighbours = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &here);
  MPI_Comm_size(here, &neighbours);
  MPI_Comm_free(&here);
  MPI_Bcast(&place.port, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (neighbours != place.size)
    place.address = name;
}

} // namespace

Outcome runProgram(const Program &program, int argc, const char *const *argv, Driver *driver) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  Outcome outcome = runProcess(program, argc, argv,
                               {findPlace, announce,
                                [&](const Place &place, const Options &options, RendezvousClient &client) {
                                  return std::make_unique<MpiProvider>(program, place, options, client);
                                }},
                               driver);
  // A failed rank leaves at once: an orderly end would wait for the others.
  if (outcome.code != 0 && !driver) {
    std::fprintf(stderr, "%s\n", outcome.message().c_str());
    std::fflush(nullptr);
    std::_Exit(outcome.code);
  }
  if (outcome.code == 0)
    MPI_Finalize();
  return outcome;
}

} // namespace plumb
