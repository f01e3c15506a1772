"""Fine-tuning: data, schedules, the trainer, checkpoints and heads."""
