//===- Journal.cpp - What a run says of its steps -----------------------------===//

#include "plumb/Runtime/Journal.h"

#include "plumb/Runtime/Failure.h"

#include <cerrno>
#include <cmath>
#include <cstring>

namespace plumb {

Journal::Journal(const std::string &log, std::int64_t tokensPerStep, bool prints)
    : path(log), file(log.empty() ? nullptr : std::fopen(log.c_str(), "a")), tokensPerStep(tokensPerStep),
      prints(prints), last(std::chrono::steady_clock::now()) {
  if (!log.empty() && !file)
    throw Failure(path, std::string("cannot open the log: ") + std::strerror(errno));
}

/// A number as JSON, which has none that is not finite.
static std::string number(double value, int digits) {
  if (!std::isfinite(value))
    return "null";
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

void Journal::add(const StepReport &report) {
  std::lock_guard guard(mutex);
  auto now = std::chrono::steady_clock::now();
  double seconds = std::chrono::duration<double>(now - last).count();
  last = now;
  if (prints) {
    std::printf("step %lld: loss %.6g\n", static_cast<long long>(report.step + 1), report.loss);
    std::fflush(stdout);
  }
  if (!file)
    return;
  // Nine digits give back every f32.
  std::string line =
      "{\"step\": " + std::to_string(report.step + 1) + ", \"loss\": " + number(report.loss, 9);
  if (report.norm)
    line += ", \"gradient_norm\": " + number(*report.norm, 9);
  if (report.rate)
    line += ", \"rate\": " + number(*report.rate, 17);
  if (tokensPerStep)
    line += ", \"tokens_per_second\": " + number(static_cast<double>(tokensPerStep) / seconds, 6);
  line += ", \"seconds\": " + number(seconds, 6) + ", \"peak_bytes\": " + std::to_string(report.arenaBytes) +
          "}\n";
  if (std::fputs(line.c_str(), file.get()) < 0 || std::fflush(file.get()) != 0)
    throw Failure(path, std::string("cannot write the log: ") + std::strerror(errno));
}

} // namespace plumb
