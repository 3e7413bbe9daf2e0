// Times the planner of redistributions on one core, on random layouts of meshes of one to four axes.
//
//   tools/bench redistributions [SEED] [QUESTIONS PER MESH]
//
// A line per mesh, tensor and set of steps: median, 90th percentile and longest planning time in milliseconds
// of processor time, how many plans are proven optimal, how many move no more than the lower bound.
#include "plumb/Redistribution/Interpreter.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Redistribution/Planner.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>

using namespace plumb::redistribution;

namespace {

double processorSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// Whole axes in any order at any dims, some of them partial in the source, some of those still in the
/// target.
Layout randomLayout(const Mesh &mesh, unsigned rank, std::mt19937 &random) {
  Layout layout = Layout::replicated(rank);
  std::vector<unsigned> axes(mesh.axes.size());
  for (auto [i, axis] : llvm::enumerate(axes))
    axis = i;
  std::shuffle(axes.begin(), axes.end(), random);
  for (unsigned axis : axes) {
    unsigned role = random() % (rank + 2);
    if (role < rank)
      layout.dims[role].axes.push_back(wholeAxis(mesh, axis));
    else if (role == rank)
      layout.partial.push_back({wholeAxis(mesh, axis), Reduction::Sum});
  }
  return layout;
}

struct Case {
  const char *mesh, *shape;
};

const Case kCases[] = {
    {"x=8", "64,64"},
    {"x=3,y=4", "12,24,12"},
    {"x=2,y=8", "16,32,16"},
    {"x=4,y=4", "16,16,16"},
    {"x=2,y=2,z=2", "8,8,8"},
    {"x=2,y=2,z=3", "12,12,12"},
    {"x=2,y=3,z=2", "12,12,12"},
    {"x=2,y=4,z=8", "64,64,64"},
    {"x=4,y=4,z=8", "128,128,128"},
    {"x=2,y=3,z=4", "13,7,10"},
    {"x=2,y=2,z=2", "5,3,7"},
    {"x=2,y=2,z=2,w=2", "16,16,16,16"},
    {"x=2,y=2,z=2,w=2", "7,16,5,16"},
};

int report(const Case &of, bool exchange, unsigned seed, int questions) {
  std::mt19937 random(seed);
  Mesh mesh = llvm::cantFail(parseMesh(of.mesh));
  Index shape = llvm::cantFail(parseShape(of.shape));
  PlanOptions options;
  options.exchange = exchange;
  std::vector<double> times;
  int optimal = 0, atBound = 0, wrong = 0;
  for (int i = 0; i < questions; ++i) {
    Layout from = randomLayout(mesh, shape.size(), random), to = randomLayout(mesh, shape.size(), random);
    to.partial.clear();
    double begin = processorSeconds();
    llvm::Expected<Plan> plan = planRedistribution(mesh, shape, 4, from, to, options);
    times.push_back(1e3 * (processorSeconds() - begin));
    llvm::Error error = plan ? verifyPlan(*plan) : plan.takeError();
    if (error) {
      llvm::errs() << of.mesh << " " << of.shape << " " << toString(mesh, from) << " -> "
                   << toString(mesh, to) << ": " << llvm::toString(std::move(error)) << "\n";
      ++wrong;
      continue;
    }
    optimal += plan->optimal;
    atBound += plan->bytes <= plan->boundBytes * (1 + 1e-9);
  }
  llvm::sort(times);
  llvm::outs() << llvm::formatv("{0,-16} {1,-14} {2,-11} median {3,8:f3}  90% {4,8:f3}  longest {5,8:f3} ms  "
                                "optimal {6}/{7}  at the bound {8}/{7}\n",
                                of.mesh, of.shape, exchange ? "exchange" : "collectives",
                                times[times.size() / 2], times[times.size() * 9 / 10], times.back(), optimal,
                                questions, atBound);
  return wrong;
}

void reportCache() {
  Mesh mesh = llvm::cantFail(parseMesh("dp=2,tp=4"));
  Layout from = llvm::cantFail(parseLayout(mesh, "[{dp},{}] partial{tp}"));
  Layout to = llvm::cantFail(parseLayout(mesh, "[{},{tp}]"));
  PlanCache cache;
  double begin = processorSeconds();
  for (int layer = 0; layer < 10'000; ++layer)
    llvm::cantFail(cache.get(mesh, {64, 64}, 4, from, to));
  llvm::outs() << llvm::formatv("10000 requests of one plan: {0:f3} ms\n",
                                1e3 * (processorSeconds() - begin));
}

} // namespace

int main(int argc, char **argv) {
  unsigned seed = argc > 1 ? unsigned(std::atoi(argv[1])) : 1;
  int questions = argc > 2 ? std::max(1, std::atoi(argv[2])) : 100, wrong = 0;
  for (const Case &of : kCases)
    for (bool exchange : {false, true})
      wrong += report(of, exchange, seed, questions);
  reportCache();
  return wrong != 0;
}
