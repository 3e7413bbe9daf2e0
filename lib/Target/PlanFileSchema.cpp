//===- PlanFileSchema.cpp - The JSON Schema of plan files ---------------------===//

#include "plumb/Target/PlanFile.h"

static constexpr llvm::StringLiteral kSchema = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "A compiled plan of Plumb",
  "type": "object",
  "additionalProperties": false,
  "required": ["format", "version", "made_by", "model", "signature", "mesh", "pipeline", "communicators", "stages", "parameters",
               "states", "memory", "buffers", "streams", "events", "actions", "kernels", "certificate", "launch"],
  "$defs": {
    "count": {"type": "integer", "minimum": 0},
    "names": {"type": "array", "items": {"type": "string"}},
    "axis": {"type": "string", "description": "A mesh axis, or a factor of one: 'tp:(1)2' has 1 rank before it and 2 of its own."},
    "axes": {"type": "array", "items": {"$ref": "#/$defs/axis"}},
    "layout": {
      "description": "Per dimension the axes that shard it, outermost first, and into how many equal blocks, or blocks of which sizes, it is divided before.",
      "type": "array",
      "items": {"anyOf": [
        {"$ref": "#/$defs/axes"},
        {"type": "object", "additionalProperties": false, "required": ["axes", "blocks"],
         "properties": {"axes": {"$ref": "#/$defs/axes"}, "blocks": {"anyOf": [{"type": "integer", "minimum": 2},
          {"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": 1}}]}}}]}
    },
    "offsets": {
      "description": "Per pipeline coordinate the place in the rank's arena, in bytes; null where it is not held.",
      "type": "array", "items": {"type": ["integer", "null"], "minimum": 0}
    },
    "shape": {"type": "array", "items": {"$ref": "#/$defs/count"}},
    "dtype": {"enum": ["f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "ui8", "i1"]},
    "transfers": {
      "type": "array",
      "items": {
        "type": "object", "additionalProperties": false, "required": ["stage", "communicator", "type", "layout"],
        "properties": {
          "stage": {"$ref": "#/$defs/count"}, "communicator": {"type": "string"},
          "type": {"type": "string", "description": "Of what one rank hands over."}, "layout": {"$ref": "#/$defs/layout"}
        }
      }
    }
  },
  "properties": {
    "format": {"const": "plumb-plan"},
    "version": {"const": 2},
    "made_by": {"type": "string"},
    "model": {"type": "string"},
    "signature": {"type": "string", "pattern": "^[0-9a-f]{16}$", "description": "Of the program; all ranks of a run have the same."},
    "mesh": {
      "type": "object", "additionalProperties": false, "required": ["axes", "ranks"],
      "properties": {
        "axes": {
          "description": "A rank's number is the sum over the axes of its coordinate times the stride.",
          "type": "array",
          "items": {
            "type": "object", "additionalProperties": false, "required": ["name", "size", "stride"],
            "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 1},
                           "stride": {"type": "integer", "minimum": 1}}
          }
        },
        "ranks": {"type": "integer", "minimum": 1}
      }
    },
    "pipeline": {
      "type": "object", "additionalProperties": false, "required": ["axis", "schedule", "microbatches", "stages"],
      "properties": {
        "axis": {"type": "string"}, "schedule": {"type": "string"}, "microbatches": {"type": "integer", "minimum": 1},
        "stages": {"type": "array", "items": {"$ref": "#/$defs/count"}, "description": "The coordinate of each stage."}
      }
    },
    "communicators": {
      "description": "In the order in which every rank makes those that it is a member of.",
      "type": "array",
      "items": {
        "type": "object", "additionalProperties": false, "required": ["name", "axes", "pipeline", "calls"],
        "properties": {
          "name": {"type": "string"}, "axes": {"$ref": "#/$defs/axes"},
          "pipeline": {"type": "array", "items": {"$ref": "#/$defs/count"},
                       "description": "The coordinates that it joins, slowest; empty: each has its own."},
          "calls": {"$ref": "#/$defs/names"}
        }
      }
    },
    "stages": {
      "type": "array",
      "items": {
        "type": "object", "additionalProperties": false, "required": ["name", "modules", "parameters", "receives", "sends"],
        "properties": {
          "name": {"type": "string"}, "modules": {"$ref": "#/$defs/names"}, "parameters": {"$ref": "#/$defs/names"},
          "receives": {"$ref": "#/$defs/transfers"}, "sends": {"$ref": "#/$defs/transfers"}
        }
      }
    },
    "parameters": {
      "type": "array",
      "items": {
        "type": "object", "additionalProperties": false,
        "required": ["name", "aliases", "dtype", "shape", "layout", "trainable", "persistent", "owner", "holders", "offsets"],
        "properties": {
          "name": {"type": "string"}, "aliases": {"$ref": "#/$defs/names"}, "dtype": {"$ref": "#/$defs/dtype"},
          "shape": {"$ref": "#/$defs/shape"}, "layout": {"$ref": "#/$defs/layout"}, "trainable": {"type": "boolean"},
          "persistent": {"type": "boolean", "description": "Whether checkpoints hold it."},
          "owner": {"type": ["integer", "null"], "description": "A stage."},
          "holders": {"type": "array", "items": {"$ref": "#/$defs/count"}, "description": "The stages that have a copy."},
          "offsets": {"$ref": "#/$defs/offsets"}
        }
      }
    },
    "states": {
      "type": "array",
      "items": {
        "type": "object", "additionalProperties": false, "required": ["name", "kind", "dtype", "shape", "layout", "offsets"],
        "properties": {
          "name": {"type": "string"}, "kind": {"type": "string"}, "label": {"type": "string"}, "of": {"type": "string"},
          "dtype": {"$ref": "#/$defs/dtype"}, "shape": {"$ref": "#/$defs/shape"}, "layout": {"$ref": "#/$defs/layout"},
          "offsets": {"$ref": "#/$defs/offsets"},
          "completed_by": {
            "description": "The calls, once per step, that make it whole.",
            "type": "array",
            "items": {"type": "object", "additionalProperties": false, "required": ["call", "communicator"],
                      "properties": {"call": {"type": "string"}, "communicator": {"type": "string"}}}
          }
        }
      }
    },
    "memory": {
      "description": "Per pipeline coordinate: the bytes of a rank's arena, and of its parts; staging is where the inputs of the next step arrive.",
      "type": "array",
      "items": {
        "type": "object", "required": ["arena", "largest"],
        "properties": {"largest": {"type": "string"}}, "additionalProperties": {"$ref": "#/$defs/count"}
      }
    },
    "buffers": {
      "type": "array",
      "items": {
        "type": "array",
        "items": {
          "type": "object", "additionalProperties": false,
          "required": ["stage", "made_by", "part", "used_in", "offset", "bytes", "slots"],
          "properties": {
            "stage": {"$ref": "#/$defs/count"}, "made_by": {"type": "string"}, "part": {"type": "string"},
            "used_in": {"$ref": "#/$defs/names"}, "offset": {"$ref": "#/$defs/count"}, "bytes": {"$ref": "#/$defs/count"},
            "slots": {"type": "integer", "minimum": 1, "description": "Microbatches that are held at a time."},
            "stride": {"$ref": "#/$defs/count", "description": "From one slot to the next, where they lie side by side."},
            "places": {"type": "array", "items": {"$ref": "#/$defs/count"}, "description": "From the offset to each microbatch, where they do not."},
            "ops": {"type": "array", "items": {"$ref": "#/$defs/count"}, "minItems": 2, "maxItems": 2,
                    "description": "Of what one part alone uses: the numbers of the first and the last op of the stage that need it."}
          }
        }
      }
    },
    "streams": {"$ref": "#/$defs/names"},
    "events": {"$ref": "#/$defs/count"},
    "actions": {"type": "array", "items": {"$ref": "#/$defs/names"}},
    "target": {"type": "string", "description": "What the kernels are compiled for: host, or a GPU such as sm_90. Absent if they are not compiled."},
    "kernels": {
      "type": "array",
      "items": {
        "type": "object", "additionalProperties": false, "required": ["name", "symbol", "scratch", "flops"],
        "properties": {"name": {"type": "string"}, "symbol": {"type": "string"}, "scratch": {"$ref": "#/$defs/count"},
                       "flops": {"$ref": "#/$defs/count"}}
      }
    },
    "certificate": {
      "type": "object", "additionalProperties": false,
      "required": ["proved", "consecutive_steps", "cost_unit", "makespan", "bubble", "peak_activations"],
      "properties": {
        "proved": {"$ref": "#/$defs/names"}, "consecutive_steps": {"type": "integer", "minimum": 1},
        "cost_unit": {"enum": ["operations", "the plan's"]}, "makespan": {"type": "number", "minimum": 0},
        "bubble": {"type": "number", "minimum": 0, "maximum": 1},
        "peak_activations": {"type": "array", "items": {"type": "number"}}
      }
    },
    "launch": {
      "type": "object", "additionalProperties": false, "required": ["world_size", "program", "files"],
      "properties": {"world_size": {"type": "integer", "minimum": 1}, "program": {"type": "string"},
                     "files": {"$ref": "#/$defs/names"}}
    }
  }
}
)json";

llvm::StringRef plumb::getPlanFileSchema() { return kSchema; }
