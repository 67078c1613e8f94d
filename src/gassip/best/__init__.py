"""The default preset: candidates, teachers and a student, chosen on validation."""
