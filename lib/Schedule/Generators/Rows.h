//===- Rows.h - Write down a regular schedule -------------------*- C++ -*-===//

#ifndef PLUMB_SCHEDULE_GENERATORS_ROWS_H
#define PLUMB_SCHEDULE_GENERATORS_ROWS_H

#include "plumb/Schedule/Schedule.h"
#include <algorithm>

namespace plumb::schedule {

/// One stage's microbatches in ascending order from `begin` to `end`. Patterns are written for enough
/// microbatches; what they ask for beyond `end` is left out.
class Chunk {
public:
  Chunk(int stage, int begin, int end)
      : stage(stage), end(end), nextForward(begin), nextGradient(begin), nextWeight(begin) {}

  bool forwardsLeft() const { return nextForward < end; }
  bool gradientsLeft() const { return nextGradient < end; }
  void forward(std::vector<Action> &row) { put(row, Action::forward(stage, nextForward++)); }
  void backward(std::vector<Action> &row) {
    put(row, Action::backward(stage, nextGradient++));
    ++nextWeight;
  }
  void inputGrad(std::vector<Action> &row) { put(row, Action::inputGrad(stage, nextGradient++)); }
  void weightGrad(std::vector<Action> &row) { put(row, Action::weightGrad(stage, nextWeight++)); }
  /// This chunk's next forward together with `other`'s next backward, or what is left of the two.
  void overlap(Chunk &other, std::vector<Action> &row) {
    if (!forwardsLeft() || !other.gradientsLeft()) {
      forward(row);
      other.backward(row);
      return;
    }
    row.push_back(Action::overlap(Action::forward(stage, nextForward++),
                                  Action::backward(other.stage, other.nextGradient++)));
    ++other.nextWeight;
  }

private:
  void put(std::vector<Action> &row, const Action &action) {
    if (action.microbatch < end)
      row.push_back(action);
  }

  int stage, end;
  int nextForward, nextGradient, nextWeight;
};

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_GENERATORS_ROWS_H
