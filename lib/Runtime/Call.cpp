//===- Call.cpp - The NCCL calls of one rank --------------------------------===//

#include "plumb/Runtime/Call.h"

namespace plumb::host {

std::size_t sizeOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  default:
    return 0;
  }
}

const char *nameOf(ncclDataType_t type) {
  static const char *const names[] = {"i8",  "u8",  "i32", "u32",  "i64",    "u64",
                                      "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
  return type >= 0 && type < ncclNumTypes ? names[type] : "an unknown type";
}

const char *nameOf(ncclRedOp_t op) {
  static const char *const names[] = {"sum", "prod", "max", "min", "avg"};
  return op >= 0 && op < ncclNumOps ? names[op] : "an unknown operation";
}

std::string Call::describe() const {
  static const char *const names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclAlltoAll",
                                      "ncclBroadcast", "ncclSend",          "ncclRecv"};
  std::string text = names[static_cast<int>(kind)];
  text += " of " + std::to_string(count) + ' ' + nameOf(type);
  if (kind == CallKind::AllReduce || kind == CallKind::ReduceScatter)
    text += std::string(" (") + nameOf(op) + ")";
  if (peer >= 0) {
    text += kind == CallKind::Send   ? " to rank "
            : kind == CallKind::Recv ? " from rank "
                                     : " with root rank ";
    text += std::to_string(clique->ranks[static_cast<std::size_t>(peer)]);
  }
  return text;
}

bool Call::agreesWith(const Call &other) const {
  if (count != other.count || type != other.type)
    return false;
  return isTransfer() || (kind == other.kind && op == other.op && peer == other.peer);
}

std::string Position::describe() const {
  std::string text = step < 0 ? "" : " in step " + std::to_string(step + 1);
  if (part)
    text += std::string(", ") + part;
  if (part && microbatch >= 0)
    text += ", microbatch " + std::to_string(microbatch);
  return text;
}

std::string Clique::side(const Call &call) const {
  return "rank " + std::to_string(ranks[static_cast<std::size_t>(call.self)]) + " calls " + call.describe() +
         (call.unit ? call.unit->position.describe() : "");
}

} // namespace plumb::host
